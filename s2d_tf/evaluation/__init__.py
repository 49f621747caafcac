"""Model and data sets to a flat dict of numbers, to the tables and figures of the paper.

Names load on first use, so that tables of finished runs need no TensorFlow.
"""

import importlib

_HOMES = {
    "Predictions": "predictions",
    "overview_table": "overview",
    "evaluate": "evaluator",
    "predict": "predictions",
    "scores": "scoring",
}
_MODULES = (
    "claims",
    "figures",
    "names",
    "paper",
    "predictions",
    "scoring",
    "statistics",
    "tables",
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
