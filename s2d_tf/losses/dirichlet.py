"""Losses of a student that predicts a Dirichlet through its log-concentrations."""

import keras
import tensorflow as tf

from s2d_tf import numerics
from s2d_tf.losses.base import DistillationLoss


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletKLDivergence(DistillationLoss):
    """Mean over members of `KL(Dir(member) || Dir(student))`: the S2D student loss and H2D-Dir.

    Targets are log-concentrations `[batch, members, classes]` (S2D's proxy is one member),
    predictions student log-concentrations `[batch, classes]`.

    Args:
        reverse: `KL(Dir(student) || Dir(member))` instead.
    """

    student = "dirichlet"
    needs_concentrations = True

    def __init__(
        self,
        reverse=False,
        reduction="sum_over_batch_size",
        name="dirichlet_kl_divergence",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.reverse = reverse

    def call(self, member_logits, student_logits):
        member = numerics.concentrations_from_logits(member_logits)
        student = numerics.concentrations_from_logits(student_logits)[..., None, :]
        first, second = (student, member) if self.reverse else (member, student)
        return tf.reduce_mean(numerics.dirichlet_kl_divergence(first, second), axis=-1)

    def get_config(self):
        return {**super().get_config(), "reverse": self.reverse}


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletNegativeLogLikelihood(DistillationLoss):
    """Equation 3 of the paper: `-mean ln Dir(teacher prediction; student)` (En2D).

    Targets are teacher logits `[batch, members, classes]`, predictions student log-concentrations
    `[batch, classes]`.

    Args:
        temperature: the teacher predictions are softened by it, above 0.
    """

    student = "dirichlet"

    def __init__(
        self,
        temperature=1.0,
        reduction="sum_over_batch_size",
        name="dirichlet_negative_log_likelihood",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, received {temperature}.")
        self.temperature = temperature

    def call(self, teacher_logits, student_logits):
        teacher_log_probs = tf.nn.log_softmax(teacher_logits / self.temperature, axis=-1)
        return numerics.dirichlet_negative_log_likelihood(
            teacher_log_probs, numerics.concentrations_from_logits(student_logits)
        )

    def get_config(self):
        return {**super().get_config(), "temperature": self.temperature}
