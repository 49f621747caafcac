"""Losses of a student that predicts a Dirichlet through its log-concentrations."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from s2d_tf import numerics
from s2d_tf.losses.base import DistillationLoss, SoftenedLoss, TaughtLoss


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletKLDivergence(DistillationLoss):
    """Mean over members of `KL(Dir(member) || Dir(student))`: the S2D student loss and H2D-Dir.

    Targets are log-concentrations `[batch, members, classes]` (S2D's proxy is one member),
    predictions student log-concentrations `[batch, classes]`.

    Args:
        reverse: `KL(Dir(student) || Dir(member))` instead.
        concentration_temperature: divides the log-concentrations of members and student in the
            loss; the paper has 1. Larger (ours, after the first author's later code) makes both
            flatter, so that large and tiny concentrations weigh less.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.DirichletKLDivergence()
    >>> float(loss(tf.ones([4, 1, 3]), tf.ones([4, 3])))   # the student has met its target
    0.0
    """

    student = "dirichlet"
    teacher_kind = "dirichlet"

    default_name = "dirichlet_kl_divergence"

    def __init__(
        self, reverse: bool = False, concentration_temperature: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        if not concentration_temperature > 0:
            raise ValueError(
                "concentration_temperature: expected above 0, received "
                f"{concentration_temperature}. Pass 1.0 for none."
            )
        self.reverse = reverse
        self.concentration_temperature = concentration_temperature

    def call(self, member_logits: tf.Tensor, student_logits: tf.Tensor) -> tf.Tensor:
        temperature = self.concentration_temperature
        member = numerics.concentrations_from_logits(member_logits / temperature)
        student = numerics.concentrations_from_logits(student_logits / temperature)[..., None, :]
        first, second = (student, member) if self.reverse else (member, student)
        return tf.reduce_mean(numerics.dirichlet_kl_divergence(first, second), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "reverse": self.reverse,
            "concentration_temperature": self.concentration_temperature,
        }


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletFisherDistance(TaughtLoss):
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
        super().__init__(teacher_kind, **kwargs)
        if not temperature > 0:
            raise ValueError(
                f"temperature: expected above 0, received {temperature}. Pass 1.0 for none."
            )
        self.temperature = temperature

    def call(self, member_logits: tf.Tensor, student_logits: tf.Tensor) -> tf.Tensor:
        if self.teacher_kind == "dirichlet":
            members = numerics.concentrations_from_logits(member_logits)
            proxy = numerics.merge_dirichlets(members)
        else:
            log_probs = tf.nn.log_softmax(member_logits / self.temperature, axis=-1)
            proxy = numerics.fit_dirichlet(log_probs)
        distance = numerics.dirichlet_fisher_distance(proxy, student_logits - tf.math.log(proxy))
        return distance / (1.0 + tf.reduce_sum(proxy, axis=-1))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature}


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
