from .evaluating import evaluate_predictions as evaluate_predictions
from .evaluating import is_predictions as is_predictions
from .predict import Summary as Summary
from .predict import predict_files as predict_files
from .scorer import Scorer as Scorer
from .scorer import open_scorer as open_scorer
from .sources import open_source as open_source
