"""Model and data sets to a flat dict of numbers, to the tables and figures of the paper.

Names load on first use, so that tables of finished runs need no TensorFlow.
"""

from s2d_tf import _lazy

_HOMES = {
    "Predictions": "predictions",
    "Result": "results",
    "archive": "archiving",
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

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES, _MODULES)
