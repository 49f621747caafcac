"""Losses of a student that predicts a Dirichlet through its log-concentrations."""

import keras
import tensorflow as tf

from s2d_tf import numerics
from s2d_tf.losses.base import DistillationLoss, SoftenedLoss


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletKLDivergence(DistillationLoss):
    """Mean over members of `KL(Dir(member) || Dir(student))`: the S2D student loss and H2D-Dir.

    Targets are log-concentrations `[batch, members, classes]` (S2D's proxy is one member),
    predictions student log-concentrations `[batch, classes]`.

    Args:
        reverse: `KL(Dir(student) || Dir(member))` instead.
        **kwargs: as for `DistillationLoss`.
    """

    student = "dirichlet"
    needs_concentrations = True

    default_name = "dirichlet_kl_divergence"

    def __init__(self, reverse=False, **kwargs):
        super().__init__(**kwargs)
        self.reverse = reverse

    def call(self, member_logits, student_logits):
        member = numerics.concentrations_from_logits(member_logits)
        student = numerics.concentrations_from_logits(student_logits)[..., None, :]
        first, second = (student, member) if self.reverse else (member, student)
        return tf.reduce_mean(numerics.dirichlet_kl_divergence(first, second), axis=-1)

    def get_config(self):
        return {**super().get_config(), "reverse": self.reverse}


@keras.saving.register_keras_serializable(package="s2d_tf")
class DirichletNegativeLogLikelihood(SoftenedLoss):
    """Equation 3 of the paper: `-mean ln Dir(teacher prediction; student)` (En2D).

    Targets are teacher logits `[batch, members, classes]`, predictions student log-concentrations
    `[batch, classes]`.

    Args:
        temperature: the teacher predictions are softened by it, above 0.
        **kwargs: as for `DistillationLoss`.
    """

    default_name = "dirichlet_negative_log_likelihood"
    student = "dirichlet"

    def call(self, teacher_logits, student_logits):
        teacher_log_probs = tf.nn.log_softmax(teacher_logits / self.temperature, axis=-1)
        return numerics.dirichlet_negative_log_likelihood(
            teacher_log_probs, numerics.concentrations_from_logits(student_logits)
        )
