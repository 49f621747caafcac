"""How good the predictions are: classification, calibration, detection, selective prediction.

Plain functions take NumPy arrays (or anything `np.asarray` takes), work in float64, reject NaN and
infinities with one line that says what to do, and return Python floats or NumPy arrays. Fractions,
never percentages. Names load on first use, without TensorFlow; scikit-learn
only for the curves of detection.
"""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
