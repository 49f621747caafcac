"""The base of all distillation losses, and ensemble distillation (EnD): the teachers' average."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from s2d_tf.numerics.tensor_checks import require


class DistillationLoss(keras.losses.Loss):
    """A loss whose targets are teacher predictions `[batch, members, classes]`.

    Args:
        reduction, name, dtype: as for `keras.losses.Loss`; unlike Keras' own losses it keeps the
            `dtype` in its config, and its name does not count instances: `fit` logs it.

    Example:

    >>> class MeanSquaredLogits(losses.DistillationLoss):
    ...     default_name = "mean_squared_logits"
    ...
    ...     def call(self, teacher_logits, student_logits):
    ...         return tf.reduce_mean((tf.reduce_mean(teacher_logits, 1) - student_logits) ** 2, -1)
    >>> float(MeanSquaredLogits()(tf.zeros([4, 2, 3]), tf.ones([4, 3])))
    1.0
    """

    default_name: str

    student = "categorical"
    """What a student with this loss predicts: "categorical", "dirichlet" or "gaussian"."""

    teacher_kind: str | None = None
    """The kind of the teachers: "dirichlet" (the targets are log-concentrations), "categorical"
    (logits of class probabilities), or `None`: their mean predictions serve, whatever they are."""

    def __init__(
        self, reduction: str = "sum_over_batch_size", name: str | None = None, dtype: Any = None
    ) -> None:
        super().__init__(name=name or self.default_name, reduction=reduction, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "dtype": self.dtype}


class SoftenedLoss(DistillationLoss):
    """A loss of teacher predictions that are softened first.

    Args:
        temperature: divides the logits; above 0, larger is smoother.
        **kwargs: as for `DistillationLoss`.
    """

    def __init__(self, temperature: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require(
            temperature > 0,
            f"temperature: expected a number above 0, received {temperature!r}. Pass 1.0 for none.",
        )
        self.temperature = temperature

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature}


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
        require(
            isinstance(distribution, DistillationLoss),
            f"distribution: expected a losses.DistillationLoss, received {distribution!r}."
            " Pass one such as losses.DirichletFisherDistance().",
        )
        require(
            weight >= 0,
            f"weight: expected at least 0, received {weight}. Pass 0 for the cross-entropy alone.",
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
