"""Uncertainty from a single forward pass: self-distribution distillation (S2D) for Keras 3.

Submodules load on first use, so `import s2d_tf` is cheap and does not import TensorFlow:

    import s2d_tf
    model = s2d_tf.models.S2DClassifier(backbone, num_classes=10)   # TensorFlow is imported here
"""

import importlib

from s2d_tf import _bootstrap

__version__ = "0.1.0"

_SUBMODULES = (
    "backbones",
    "data",
    "evaluation",
    "export",
    "layers",
    "losses",
    "metrics",
    "models",
    "numerics",
    "training",
    "uncertainty",
    "zoo",
)

__all__ = ["__version__", *_SUBMODULES]

_bootstrap.install()


def __getattr__(name):
    if name in _SUBMODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *_SUBMODULES})
