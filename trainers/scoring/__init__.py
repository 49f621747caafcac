"""Score any number of inputs from files: resumable, in constant memory, damaged ones skipped."""

from .example_files import open_source
from .predict import Summary, evaluate_table, predict_files
from .scorer import Scorer, open_scorer

__all__ = [
    "Scorer",
    "Summary",
    "evaluate_table",
    "open_scorer",
    "open_source",
    "predict_files",
]
