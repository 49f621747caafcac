"""The model zoo: every architecture, method and dataset by name, some with trained weights.

Names load on first use: listing the zoo, and reading recipes and runs, does not import TensorFlow.
"""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
