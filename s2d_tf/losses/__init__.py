"""Keras losses: what a student learns from teacher predictions `[batch, members, classes]`."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.losses.distillation import DistillationLoss, SoftCrossEntropy, WithSoftCrossEntropy
from s2d_tf.losses.distributions import (
    DirichletFisherDistance,
    DirichletKLDivergence,
    DirichletNegativeLogLikelihood,
    NormalKLDivergence,
    scale_from_log,
)

__all__ = [
    "DirichletFisherDistance",
    "DirichletKLDivergence",
    "DirichletNegativeLogLikelihood",
    "DistillationLoss",
    "NormalKLDivergence",
    "SoftCrossEntropy",
    "WithSoftCrossEntropy",
    "scale_from_log",
]
