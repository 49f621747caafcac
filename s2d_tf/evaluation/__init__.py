"""Evaluate any model on any data: metrics, tables, figures and a report.

Names load on first use, so that tables of finished runs need no TensorFlow.
"""

from s2d_tf import _lazy

_HOMES = {
    "ExportedModel": "exported",
    "Predictions": "predictions",
    "Result": "results",
    "Section": "report",
    "Shift": "shift",
    "Tuning": "head_tuning",
    "collect": "results",
    "compare": "model_report",
    "compare_runs": "run_evaluation",
    "evaluate": "evaluator",
    "evaluate_entry": "run_evaluation",
    "evaluate_run": "run_evaluation",
    "evaluate_shift": "shift",
    "overview_table": "result_tables",
    "predict": "predictions",
    "scores": "scoring",
    "shift_intervals": "shift_resampling",
    "tune_head": "head_tuning",
    "write_model_report": "model_report",
    "write_report": "report",
}
_MODULES = (
    "benchmark",
    "benchmark_page",
    "detector_study",
    "figures",
    "names",
    "predictions",
    "results",
    "scoring",
    "shift_study",
    "statistics",
    "tables",
)

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES, _MODULES)
