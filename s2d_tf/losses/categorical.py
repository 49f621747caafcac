"""Ensemble distillation (EnD): learn the teachers' average prediction."""

import keras
import tensorflow as tf

from s2d_tf.losses.base import SoftenedLoss


@keras.saving.register_keras_serializable(package="s2d_tf")
class SoftCrossEntropy(SoftenedLoss):
    """Cross-entropy to the average of the temperature-scaled teacher predictions.

    Targets are teacher logits `[batch, members, classes]`, predictions student logits
    `[batch, classes]`. The student is scaled by the same temperature, and the loss by its square,
    so that the size of the gradients does not depend on it.

    Args:
        temperature: above 0; larger is smoother.
        **kwargs: as for `DistillationLoss`.
    """

    default_name = "soft_cross_entropy"

    def call(self, teacher_logits, student_logits):
        target = tf.reduce_mean(tf.nn.softmax(teacher_logits / self.temperature, axis=-1), axis=-2)
        student_log_probs = tf.nn.log_softmax(student_logits / self.temperature, axis=-1)
        return -(self.temperature**2) * tf.reduce_sum(target * student_log_probs, axis=-1)
