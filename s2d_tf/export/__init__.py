"""Trained models for TF Serving and other runtimes. Names load on first use."""

from s2d_tf import _lazy

_HOMES = {
    "OperationError": "operations",
    "check": "operations",
    "save": "saved_model",
    "save_litert": "portable",
    "save_onnx": "portable",
    "versions": "versions",
}

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES)
