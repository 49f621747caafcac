from s2d_tf.prediction.evaluating import (
    evaluate_predictions as evaluate_predictions,
    is_predictions as is_predictions,
)
from s2d_tf.prediction.predict import Summary as Summary, predict_files as predict_files
from s2d_tf.prediction.scorer import Scorer as Scorer, open_scorer as open_scorer
from s2d_tf.prediction.sources import open_source as open_source
