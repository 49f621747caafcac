"""Model and data sets to a flat dict of numbers, to the tables and figures of the paper.

Names load on first use, so that tables of finished runs need no TensorFlow.
"""

import importlib

_HOMES = {
    "Predictions": "predictions",
    "Result": "results",
    "collect": "results",
    "compare_runs": "run_comparison",
    "evaluate": "evaluator",
    "evaluate_entry": "run_evaluation",
    "evaluate_run": "run_evaluation",
    "is_run": "results",
    "overview_table": "overview",
    "paper_table": "paper_layout",
    "predict": "predictions",
    "scores": "scoring",
    "tables_of": "table_set",
    "write_report": "report",
}
_MODULES = (
    "claims",
    "figures",
    "names",
    "paper",
    "predictions",
    "results",
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
