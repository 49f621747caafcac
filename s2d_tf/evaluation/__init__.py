"""Evaluate any model on any data: metrics, tables, figures and a report.

Names load on first use, so that tables of finished runs need no TensorFlow.
"""

from s2d_tf import _lazy

_HOMES = {
    "Predictions": "predictions",
    "Result": "results",
    "Section": "report",
    "collect": "results",
    "compare": "model_report",
    "compare_runs": "run_evaluation",
    "evaluate": "evaluator",
    "evaluate_entry": "run_evaluation",
    "evaluate_run": "run_evaluation",
    "overview_table": "result_tables",
    "predict": "predictions",
    "scores": "scoring",
    "write_model_report": "model_report",
    "write_report": "report",
}
_MODULES = (
    "detector_study",
    "figures",
    "names",
    "predictions",
    "results",
    "scoring",
    "statistics",
    "tables",
)

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES, _MODULES)
