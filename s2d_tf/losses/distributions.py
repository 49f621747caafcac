"""Losses of students that predict a distribution over predictions.

A Dirichlet through its log-concentrations (S2D, H2D-Dir, En2D), or a diagonal Gaussian over
log-concentrations (H2D-Gauss).
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from s2d_tf import _types, numerics
from s2d_tf.losses.distillation import DistillationLoss, SoftenedLoss
from s2d_tf.numerics.tensor_checks import require

MAX_SCALE = 1e3
"""Far beyond the range of log-concentrations (+-20): only keeps a wild prediction finite."""


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletKLDivergence(DistillationLoss):
    """Mean over members of `KL(Dir(member) || Dir(student))`: the S2D student loss and H2D-Dir.

    Targets are log-concentrations `[batch, members, classes]` (S2D's proxy is one member),
    predictions student log-concentrations `[batch, classes]`.

    Args:
        reverse: `KL(Dir(student) || Dir(member))` instead.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.DirichletKLDivergence()
    >>> float(loss(tf.ones([4, 1, 3]), tf.ones([4, 3])))   # the student has met its target
    0.0
    """

    student = "dirichlet"
    teacher_kind = "dirichlet"

    default_name = "dirichlet_kl_divergence"

    def __init__(self, reverse: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.reverse = reverse

    def call(self, member_logits: tf.Tensor, student_logits: tf.Tensor) -> tf.Tensor:
        member = numerics.concentrations_from_logits(member_logits)
        student = numerics.concentrations_from_logits(student_logits)[..., None, :]
        first, second = (student, member) if self.reverse else (member, student)
        return tf.reduce_mean(numerics.dirichlet_kl_divergence(first, second), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "reverse": self.reverse}


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletFisherDistance(SoftenedLoss):
    """Ours: H2D-Dir whose gradients are as bounded as those of a cross-entropy.

    The mean KL from the members is the KL from one Dirichlet, their exact proxy
    (`numerics.merge_dirichlets`), plus a constant. Both its size and its curvature grow with the
    concentrations, and its slope with the inverse of the smallest: one image of thousands can carry
    half of a gradient. Here the divergence from the proxy is taken to second order in
    log-concentrations, and divided by the bound of its curvature, the proxy's total concentration
    plus 1. It is zero where the KL is least, weighs classes near there as the KL does, and its
    curvature is at most 1, so that it trains at the rates of a cross-entropy.

    Targets are log-concentrations `[batch, members, classes]` or, of categorical teachers, logits;
    predictions student log-concentrations `[batch, classes]`.

    Args:
        teacher_kind: "dirichlet", or "categorical": the proxy is then the maximum-likelihood
            Dirichlet of the members' predictions, and the loss one of En2D's kind.
        temperature: softens the predictions of categorical teachers before the fit; Dirichlet
            teachers are taken as they are.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.DirichletFisherDistance()
    >>> round(float(loss(tf.ones([4, 1, 3]), tf.ones([4, 3]))), 6)
    0.0
    """

    student = "dirichlet"

    default_name = "dirichlet_fisher_distance"

    def __init__(
        self, teacher_kind: str = "dirichlet", temperature: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(temperature, **kwargs)
        require(
            teacher_kind in _types.TEACHER_KINDS,
            f"teacher_kind: expected one of {_types.TEACHER_KINDS}, received "
            f"{teacher_kind!r}. Pass the kind of the teachers.",
        )
        self.teacher_kind = teacher_kind

    def call(self, member_logits: tf.Tensor, student_logits: tf.Tensor) -> tf.Tensor:
        if self.teacher_kind == "dirichlet":
            proxy = numerics.merge_dirichlets(numerics.concentrations_from_logits(member_logits))
        else:
            log_probs = tf.nn.log_softmax(member_logits / self.temperature, axis=-1)
            proxy = numerics.fit_dirichlet(log_probs)
        distance = numerics.dirichlet_fisher_distance(proxy, student_logits - tf.math.log(proxy))
        return distance / (1.0 + tf.reduce_sum(proxy, axis=-1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "teacher_kind": self.teacher_kind}


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletNegativeLogLikelihood(SoftenedLoss):
    """Equation 3 of the paper: `-mean ln Dir(teacher prediction; student)` (En2D).

    Targets are teacher logits `[batch, members, classes]`, predictions student log-concentrations
    `[batch, classes]`.

    Args:
        temperature: the teacher predictions are softened by it, above 0.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.DirichletNegativeLogLikelihood()
    >>> loss(tf.random.normal([4, 5, 3]), tf.ones([4, 3])).shape
    TensorShape([])
    """

    default_name = "dirichlet_negative_log_likelihood"
    student = "dirichlet"

    def call(self, teacher_logits: tf.Tensor, student_logits: tf.Tensor) -> tf.Tensor:
        teacher_log_probs = tf.nn.log_softmax(teacher_logits / self.temperature, axis=-1)
        return numerics.dirichlet_negative_log_likelihood(
            teacher_log_probs, numerics.concentrations_from_logits(student_logits)
        )


@keras.saving.register_keras_serializable(package="s2d_tf")
class NormalKLDivergence(DistillationLoss):
    """KL from the proxy Gaussian of the members to the student's (appendix A.1 of the paper).

    Targets are member log-concentrations `[batch, members, classes]`, predictions
    `[batch, 2 * classes]`, the Gaussian's means followed by its log-scales.

    Args:
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.NormalKLDivergence()
    >>> teacher_logits = tf.constant([[[1.0, 0.0], [3.0, 0.0]]])  # [batch, members, classes]
    >>> student = tf.constant([[2.0, 0.0, 0.0, np.log(1e-3)]])  # means, then log-scales
    >>> round(float(loss(teacher_logits, student)), 4)
    0.0
    """

    student = "gaussian"
    teacher_kind = "dirichlet"
    default_name = "normal_kl_divergence"

    def call(self, member_logits: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
        loc, log_scale = tf.split(student, 2, axis=-1)
        proxy_loc, proxy_scale = numerics.fit_normal(member_logits)
        return numerics.normal_kl_divergence(proxy_loc, proxy_scale, loc, scale_from_log(log_scale))


def scale_from_log(log_scale: tf.Tensor) -> tf.Tensor:
    """The deviation that a student predicts; it never falls below the proxy's floor.

    Example:

    >>> losses.scale_from_log(tf.constant([0.0, -100.0])).numpy().round(4)
    array([1.   , 0.001], dtype=float32)
    """
    return tf.exp(tf.clip_by_value(log_scale, math.log(numerics.MIN_SCALE), math.log(MAX_SCALE)))
