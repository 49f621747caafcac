"""Ensemble distillation (EnD): learn the teachers' average prediction."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from s2d_tf.losses.base import DistillationLoss, SoftenedLoss


@keras.saving.register_keras_serializable(package="s2d_tf")
class SoftCrossEntropy(SoftenedLoss):
    """Cross-entropy to the average of the temperature-scaled teacher predictions.

    Targets are teacher logits `[batch, members, classes]`, predictions student logits
    `[batch, classes]`.

    Args:
        temperature: above 0; larger is smoother.
        scale_student: scale the student by the same temperature in training, and the loss by its
            square, so that the size of the gradients does not depend on it; at prediction the
            student is as sharp as its teachers. `False` is the other reading of the paper: the
            student's own prediction learns the softened target.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.SoftCrossEntropy(temperature=2.0)
    >>> teacher_logits, student_logits = tf.zeros([4, 5, 3]), tf.zeros([4, 3])
    >>> round(float(loss(teacher_logits, student_logits)) / 2.0**2, 4)  # the entropy, ln 3
    1.0986
    """

    default_name = "soft_cross_entropy"

    def __init__(self, temperature: float = 1.0, scale_student: bool = True, **kwargs: Any) -> None:
        super().__init__(temperature, **kwargs)
        self.scale_student = scale_student

    def call(self, teacher_logits: tf.Tensor, student_logits: tf.Tensor) -> tf.Tensor:
        target = tf.reduce_mean(tf.nn.softmax(teacher_logits / self.temperature, axis=-1), axis=-2)
        scale = self.temperature if self.scale_student else 1.0
        student_log_probs = tf.nn.log_softmax(student_logits / scale, axis=-1)
        return -(scale**2) * tf.reduce_sum(target * student_log_probs, axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "scale_student": self.scale_student}


@keras.saving.register_keras_serializable(package="s2d_tf")
class WithSoftCrossEntropy(DistillationLoss):
    """Ours: soft cross-entropy to the teachers' mean prediction, and a distribution beside it.

    Alone, a distribution loss spends most of its nats on classes that no prediction needs. Here the
    cross-entropy decides the student's mean prediction, and the small weight of the other term
    what is left open: how concentrated it is, or how widely the members are spread.

    Targets and predictions are those of the distribution's loss. A Gaussian's cross-entropy is that
    of its mean.

    Args:
        distribution: the `DistillationLoss` of the distribution.
        weight: of the distribution's loss, not negative.
        temperature, scale_student: as for `SoftCrossEntropy`.
        **kwargs: as for `DistillationLoss`.

    Example:

    >>> loss = losses.WithSoftCrossEntropy(losses.DirichletFisherDistance(), weight=0.1)
    >>> loss.student
    'dirichlet'
    """

    default_name = "with_soft_cross_entropy"

    def __init__(
        self,
        distribution: DistillationLoss,
        weight: float = 1e-3,
        temperature: float = 1.0,
        scale_student: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if not isinstance(distribution, DistillationLoss):
            raise ValueError(
                f"distribution: expected a losses.DistillationLoss, received {distribution!r}."
                " Pass one such as losses.DirichletFisherDistance()."
            )
        if not weight >= 0:
            raise ValueError(
                f"weight: expected at least 0, received {weight}. Pass 0 for the cross-entropy "
                "alone."
            )
        self.distribution = distribution
        self.weight = weight
        self.categorical = SoftCrossEntropy(temperature, scale_student, dtype=self.dtype)
        self.student = distribution.student
        self.teacher_kind = distribution.teacher_kind

    def call(self, teacher_logits: tf.Tensor, student: tf.Tensor) -> tf.Tensor:
        loc = tf.split(student, 2, axis=-1)[0] if self.student == "gaussian" else student
        categorical = self.categorical.call(teacher_logits, loc)
        return categorical + self.weight * self.distribution.call(teacher_logits, student)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "distribution": keras.saving.serialize_keras_object(self.distribution),
            "weight": self.weight,
            "temperature": self.categorical.temperature,
            "scale_student": self.categorical.scale_student,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> WithSoftCrossEntropy:
        distribution = keras.saving.deserialize_keras_object(config["distribution"])
        return cls(**{**config, "distribution": distribution})
