"""A small server with TF Serving's REST protocol, for machines that have no TF Serving."""

import importlib

_HOMES = {
    "Limits": "limits",
    "Servables": "servable",
    "create_app": "app",
    "serve": "server",
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
