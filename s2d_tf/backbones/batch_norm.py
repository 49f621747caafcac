"""Batch norm by TensorFlow's fused kernels."""

from __future__ import annotations

import keras
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from s2d_tf.backbones import normalizing


@keras.saving.register_keras_serializable(package="s2d_tf")
class BatchNormalization(keras.layers.BatchNormalization):
    """`keras.layers.BatchNormalization`, faster.

    Keras 3 normalizes with separate operations (mean, squared difference, products), each a pass
    over the memory. Here float32 and bfloat16 batches `[batch, height, width, channels]` go through
    one kernel forward and one backward, with statistics in float32. Weights, config, outputs and
    moving statistics are the parent's, to rounding. What the kernel does not do (synchronized
    statistics, masks, other ranks and dtypes) the parent does. So it does training under XLA, which
    fuses the parent's operations by itself but expands the kernel to E[x^2] - E[x]^2: that loses
    all digits where the mean is large (0.5 off at mean 1000, deviation 2).

    The class keeps the parent's name because Keras files weights under class names: either class
    reads what the other wrote.
    """

    def call(
        self, inputs: tf.Tensor, training: bool | None = None, mask: tf.Tensor | None = None
    ) -> tf.Tensor:
        if not self._kernel_applies(inputs):
            return super().call(inputs, training=training, mask=mask)
        if not (training and self.trainable):
            parts = self.beta, self.moving_mean, self.moving_variance
            tensors = [self._gamma(), *(tf.convert_to_tensor(part) for part in parts)]
            statistics = tf.stack(tensors)
            return normalizing.normalize(inputs, statistics, self.epsilon)
        if mask is not None or self.synchronized or _compiled_by_xla():
            return super().call(inputs, training=training, mask=mask)
        outputs, mean, variance = tf.compat.v1.nn.fused_batch_norm(
            inputs,
            scale=self._gamma(),
            offset=tf.convert_to_tensor(self.beta),
            epsilon=self.epsilon,
            is_training=True,
        )
        # The kernel normalizes with the biased variance but hands out the unbiased one; Keras
        # averages the biased.
        count = tf.cast(tf.size(inputs) // inputs.shape[-1], variance.dtype)
        variance *= (count - 1.0) / count
        for average, batch in ((self.moving_mean, mean), (self.moving_variance, variance)):
            average.assign(average * self.momentum + batch * (1.0 - self.momentum))
        return outputs

    def _gamma(self):
        return tf.convert_to_tensor(self.gamma) if self.scale else tf.ones_like(self.moving_mean)

    def _kernel_applies(self, inputs):
        return (
            len(inputs.shape) == 4
            and self.axis in (-1, 3)
            and keras.backend.standardize_dtype(inputs.dtype) == self.compute_dtype
            and self.compute_dtype in ("float32", "bfloat16")
            and self.variable_dtype == "float32"
            and self.center
            and not self.renorm
        )


def _compiled_by_xla():
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
