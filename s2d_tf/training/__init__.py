"""Recipes and the runs that follow them. Names load on first use; recipes need no TensorFlow."""

import importlib

_HOMES = {
    "Preempted": "preemption",
    "Recipe": "recipes",
    "Run": "runs",
    "Settings": "loop",
    "WorkerLostError": "multi_worker",
    "build_network": "build",
    "build_predictor": "build",
    "summary": "runs",
    "train": "loop",
}

_MODULES = (
    "build",
    "checkpoints",
    "files",
    "preemption",
    "recipes",
    "runs",
    "schedules",
    "strategies",
    "tuning",
)

__all__ = sorted([*_HOMES, *_MODULES])


def __getattr__(name):
    if name in _HOMES:
        value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
        globals()[name] = value
        return value
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted({*globals(), *__all__})
