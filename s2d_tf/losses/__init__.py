"""Keras losses: what a student learns from teacher predictions `[batch, members, classes]`."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.losses.base import DistillationLoss
from s2d_tf.losses.categorical import SoftCrossEntropy, WithSoftCrossEntropy
from s2d_tf.losses.dirichlet import (
    DirichletFisherDistance,
    DirichletKLDivergence,
    DirichletNegativeLogLikelihood,
)
from s2d_tf.losses.normal import NormalKLDivergence, NormalNegativeLogLikelihood, scale_from_log

__all__ = [
    "DirichletFisherDistance",
    "DirichletKLDivergence",
    "DirichletNegativeLogLikelihood",
    "DistillationLoss",
    "NormalKLDivergence",
    "NormalNegativeLogLikelihood",
    "SoftCrossEntropy",
    "WithSoftCrossEntropy",
    "scale_from_log",
]
