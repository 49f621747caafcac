"""Uncertainty from a single forward pass: self-distribution distillation (S2D) for Keras 3.

Submodules load on first use, so `import s2d_tf` is cheap and does not import TensorFlow:

    import s2d_tf
    model = s2d_tf.models.S2DClassifier(backbone, num_classes=10)   # TensorFlow is imported here
"""

from s2d_tf import _lazy, _paths

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
__all__ += ["__version__"]

_paths.register_trainers()
