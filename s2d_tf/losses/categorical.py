"""Ensemble distillation (EnD): learn the teachers' average prediction."""

import keras
import tensorflow as tf

from s2d_tf.losses.base import DistillationLoss


@keras.saving.register_keras_serializable(package="s2d_tf")
class SoftCrossEntropy(DistillationLoss):
    """Cross-entropy to the average of the temperature-scaled teacher predictions.

    Targets are teacher logits `[batch, members, classes]`, predictions student logits
    `[batch, classes]`. The student is scaled by the same temperature, and the loss by its square,
    so that the size of the gradients does not depend on it.

    Args:
        temperature: above 0; larger is smoother.
    """

    def __init__(
        self,
        temperature=1.0,
        reduction="sum_over_batch_size",
        name="soft_cross_entropy",
        dtype=None,
    ):
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        if not temperature > 0:
            raise ValueError(f"temperature must be above 0, received {temperature}.")
        self.temperature = temperature

    def call(self, teacher_logits, student_logits):
        target = tf.reduce_mean(tf.nn.softmax(teacher_logits / self.temperature, axis=-1), axis=-2)
        student_log_probs = tf.nn.log_softmax(student_logits / self.temperature, axis=-1)
        return -(self.temperature**2) * tf.reduce_sum(target * student_log_probs, axis=-1)

    def get_config(self):
        return {**super().get_config(), "temperature": self.temperature}
