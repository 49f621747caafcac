"""A question asked of many models: the paper's tables and claims, detectors, shift; the report."""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
