"""What all distillation losses share."""

from __future__ import annotations

from typing import Any

import keras


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
        if not temperature > 0:
            raise ValueError(
                f"temperature: expected a number above 0, received {temperature!r}. Pass 1.0 for "
                "none."
            )
        self.temperature = temperature

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "temperature": self.temperature}
