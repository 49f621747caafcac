"""Trained models for TF Serving and other runtimes. Names load on first use."""

from s2d_tf import _lazy

__getattr__, __dir__, __all__ = _lazy.attach(
    __name__,
    {
        "OperationError": "operations",
        "check": "operations",
        "save": "saved_model",
        "save_litert": "portable",
        "save_onnx": "portable",
        "versions": "version_folders",
    },
)
