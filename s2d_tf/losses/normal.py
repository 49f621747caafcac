"""Losses of a student that predicts a diagonal Gaussian over log-concentrations (H2D-Gauss)."""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from s2d_tf import numerics
from s2d_tf.losses.base import TaughtLoss

MAX_SCALE = 1e3
"""Beyond the range of log-concentrations (+-20): only keeps a wild prediction finite."""


def scale_from_log(log_scale: tf.Tensor) -> tf.Tensor:
    """The deviation that a student predicts; it never falls below the proxy's floor.

    Example:

    >>> losses.scale_from_log(tf.constant([0.0, -100.0])).numpy().round(4)
    array([1.   , 0.001], dtype=float32)
    """
    return tf.exp(tf.clip_by_value(log_scale, math.log(numerics.MIN_SCALE), math.log(MAX_SCALE)))


class _NormalLoss(TaughtLoss):
    """Targets: member log-concentrations or logits `[batch, members, classes]`.

    Predictions: `[batch, 2 * classes]`, the Gaussian's means followed by its log-scales.
    """

    student = "gaussian"

    def __init__(
        self, teacher_kind: str = "dirichlet", detach_scale: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(teacher_kind, **kwargs)
        self.detach_scale = detach_scale

    def call(self, member_logits: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
        if self.teacher_kind == "categorical":
            member_logits -= tf.reduce_mean(member_logits, axis=-1, keepdims=True)
        loc, log_scale = tf.split(student, 2, axis=-1)
        scale = scale_from_log(log_scale)
        if not self.detach_scale:
            return self.divergence(member_logits, loc, scale)
        spread = self.divergence(member_logits, tf.reduce_mean(member_logits, axis=-2), scale)
        error = self.divergence(member_logits, loc, tf.stop_gradient(scale))
        return error + spread - tf.stop_gradient(spread)

    def get_config(self):
        return {**super().get_config(), "detach_scale": self.detach_scale}


@keras.saving.register_keras_serializable(package="s2d_tf")
class NormalKLDivergence(_NormalLoss):
    """KL from the proxy Gaussian of the members to the student's (appendix A.1 of the paper).

    Args:
        teacher_kind: "categorical" (ours) takes the logits of plain networks, without what softmax
            does not see: each member's mean over the classes.
        detach_scale: ours: the scale learns only how the members are spread. Else it also grows by
            the mean's own error, which a student that underfits cannot remove. The value is the
            same; the mean's error has no gradient in the scale.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.NormalKLDivergence()
    >>> teacher_logits = tf.constant([[[1.0, 0.0], [3.0, 0.0]]])  # [batch, members, classes]
    >>> student = tf.constant([[2.0, 0.0, 0.0, np.log(1e-3)]])  # means, then log-scales
    >>> round(float(loss(teacher_logits, student)), 4)
    0.0
    """

    default_name = "normal_kl_divergence"

    def divergence(self, member_logits: tf.Tensor, loc: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        proxy_loc, proxy_scale = numerics.fit_normal(member_logits)
        return numerics.normal_kl_divergence(proxy_loc, proxy_scale, loc, scale)


@keras.saving.register_keras_serializable(package="s2d_tf")
class NormalNegativeLogLikelihood(_NormalLoss):
    """Mean negative log-likelihood of the members' log-concentrations: no proxy.

    Args:
        teacher_kind, detach_scale, **kwargs: as for `NormalKLDivergence`.

    Example:

    >>> loss = losses.NormalNegativeLogLikelihood()
    >>> loss(tf.random.normal([4, 5, 3]), tf.zeros([4, 6])).shape
    TensorShape([])
    """

    default_name = "normal_negative_log_likelihood"

    def divergence(self, member_logits: tf.Tensor, loc: tf.Tensor, scale: tf.Tensor) -> tf.Tensor:
        return numerics.normal_negative_log_likelihood(member_logits, loc, scale)
