"""Evaluate any model on any data: metrics, tables, figures and a report.

Names load on first use, so that tables of finished runs need no TensorFlow.
"""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
