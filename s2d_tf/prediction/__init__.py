"""Score any number of inputs from files: resumable, in constant memory, damaged ones skipped."""

from s2d_tf import _lazy

_HOMES = {
    "Scorer": "scorer",
    "Summary": "predict",
    "evaluate_predictions": "evaluating",
    "is_predictions": "evaluating",
    "open_scorer": "scorer",
    "open_source": "sources",
    "predict_files": "predict",
}

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES)
