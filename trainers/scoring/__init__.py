"""Score any number of inputs from files: resumable, in constant memory, damaged ones skipped."""

from .predict import Summary, evaluate_table, predict_files
from .scorer import Scorer, open_scorer
from .sources import open_source

__all__ = [
    "Scorer",
    "Summary",
    "evaluate_table",
    "open_scorer",
    "open_source",
    "predict_files",
]
