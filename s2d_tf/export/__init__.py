"""Trained models for TF Serving and other runtimes. Names load on first use."""

import importlib

_HOMES = {
    "OperationError": "operations",
    "check": "operations",
    "save": "saved_model",
    "save_litert": "portable",
    "save_onnx": "portable",
    "versions": "versions",
}

__all__ = sorted(_HOMES)


def __getattr__(name):
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
