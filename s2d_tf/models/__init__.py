"""Keras models that train with `fit` and answer `predict_uncertainty`."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.models.classifier import Classifier
from s2d_tf.models.ensembles import SWAG, Ensemble, MonteCarloDropout
from s2d_tf.models.predictor import Predictor
from s2d_tf.models.s2d import S2DClassifier
from s2d_tf.models.student import Student

__all__ = [
    "SWAG",
    "Classifier",
    "Ensemble",
    "MonteCarloDropout",
    "Predictor",
    "S2DClassifier",
    "Student",
]


def __dir__() -> list[str]:
    return __all__
