"""A small server with TF Serving's REST protocol."""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
