"""Batch norm, ReLU and convolution of feature maps whose batch statistics are shared.

Every unit of a dense block normalizes all feature maps before it. Their batch means and variances
do not depend on the unit, so `Moments` computes them once for each map and all units share them:
exact, and a tenth of the reads in DenseNet-BC-100-12. `SharedBatchNormalization` holds what is a
unit's own, and `NormalizedConv2D` normalizes in one pass, as the first part of its convolution. It
keeps its input only: the backward pass normalizes again, which takes less time than the memory of
a second copy of all feature maps is worth. Nor does it need the maps in one piece: the convolution
of a concatenation is the sum of the convolutions of its parts.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from s2d_tf._types import Shape
from s2d_tf.backbones import normalizing


@keras.saving.register_keras_serializable(package="s2d_tf")
class Moments(keras.layers.Layer):
    """Batch mean and variance of each channel, `[batch, height, width, K]` -> `[2, K]`.

    Args:
        synchronized: whether the batch is that of all replicas.
    """

    def __init__(self, synchronized: bool = False, **kwargs: Any) -> None:
        super().__init__(dtype=kwargs.pop("dtype", "float32"), **kwargs)
        self.synchronized = synchronized

    def call(self, inputs: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        if not training:  # Moving averages take their place.
            return tf.zeros([2, inputs.shape[-1]], self.compute_dtype)
        if self.synchronized:
            return tf.stack(keras.ops.moments(inputs, [0, 1, 2], synchronized=True))
        return normalizing.moments(inputs)

    def compute_output_spec(
        self, inputs: keras.KerasTensor, training: bool | None = None
    ) -> keras.KerasTensor:
        return keras.KerasTensor([2, inputs.shape[-1]], self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "synchronized": self.synchronized}


@keras.saving.register_keras_serializable(package="s2d_tf")
class SharedBatchNormalization(keras.layers.BatchNormalization):
    """A batch norm that is told the moments of its input, and does not normalize.

    `[2, K]` -> `[4, K]`: scale, offset, mean and variance, for `NormalizedConv2D`. Weights and
    config are the parent's.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(dtype=kwargs.pop("dtype", "float32"), **kwargs)

    def call(self, moments: tf.Tensor, training: bool | None = None) -> tf.Tensor:
        averages = self.moving_mean, self.moving_variance
        mean_and_variance = [tf.convert_to_tensor(average) for average in averages]
        if training and self.trainable:
            for average, old, batch in zip(
                averages, mean_and_variance, tf.unstack(moments), strict=True
            ):
                average.assign(old * self.momentum + batch * (1.0 - self.momentum))
            mean_and_variance = tf.unstack(moments)
        return tf.stack(
            [tf.convert_to_tensor(self.gamma), tf.convert_to_tensor(self.beta), *mean_and_variance]
        )

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (4, input_shape[-1])


@keras.saving.register_keras_serializable(package="s2d_tf")
class NormalizedConv2D(keras.layers.Conv2D):
    """The bias-free convolution of ReLU of batch norm of feature maps.

    Called with a list of feature maps, the parts of one concatenation, and with what a
    `SharedBatchNormalization` says about all their channels. Weights are the parent's.

    Args:
        epsilon: as in batch norm, added to the variance.
    """

    def __init__(self, *args: Any, epsilon: float = 1e-3, **kwargs: Any) -> None:
        # Half precision is for feature maps, not for statistics: `call` casts by itself.
        fixed = {"use_bias": False, "autocast": False}
        super().__init__(*args, **{**kwargs, **fixed})
        self.epsilon = epsilon
        self.input_spec = None  # The parent's says one tensor.

    def build(self, inputs_shape: list[Shape], statistics_shape: Shape) -> None:
        del statistics_shape
        channels = sum(shape[-1] for shape in inputs_shape)
        super().build((*inputs_shape[0][:-1], channels))
        self.input_spec = None

    def call(self, inputs: list[tf.Tensor], statistics: tf.Tensor) -> tf.Tensor:
        sizes = [x.shape[-1] for x in inputs]

        def parts(statistics, kernel, *maps):
            return list(
                zip(
                    maps,
                    tf.split(statistics, sizes, axis=-1),
                    tf.split(kernel, sizes, axis=-2),
                    strict=True,
                )
            )

        @tf.custom_gradient
        def convolve(*arguments):
            def backward(upstream):
                found = [self._backward(x, s, k, upstream) for x, s, k in parts(*arguments)]
                by_maps, by_statistics, by_kernel = zip(*found, strict=True)
                return tf.concat(by_statistics, axis=-1), tf.concat(by_kernel, axis=-2), *by_maps

            return _add([self._forward(*part) for part in parts(*arguments)]), backward

        maps = [tf.cast(x, self.compute_dtype) for x in inputs]
        return convolve(statistics, tf.cast(self.kernel, self.compute_dtype), *maps)

    def _forward(self, x, statistics, kernel):
        return self._convolve(normalizing.normalize(x, statistics, self.epsilon, relu=True), kernel)

    def _convolve(self, x, kernel):
        return tf.nn.conv2d(x, kernel, self.strides, self.padding.upper())

    def _backward(self, x, statistics, kernel, upstream):
        with tf.control_dependencies([upstream]):  # Not earlier, or both copies are alive at once.
            x = tf.identity(x)
        activated = normalizing.normalize(x, statistics, self.epsilon, relu=True)
        with tf.GradientTape() as tape:
            tape.watch([activated, kernel])
            outputs = self._convolve(activated, kernel)
        by_activated, by_kernel = tape.gradient(outputs, [activated, kernel], upstream)
        by_normalized = tf.raw_ops.ReluGrad(gradients=by_activated, features=activated)
        by_x, by_statistics = normalizing.normalize_gradient(
            by_normalized, x, statistics, self.epsilon
        )
        return by_x, by_statistics, by_kernel

    def compute_output_spec(
        self, inputs: list[keras.KerasTensor], statistics: keras.KerasTensor
    ) -> keras.KerasTensor:
        shape = self.compute_output_shape(inputs[0].shape)
        return keras.KerasTensor(shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon}


def _add(convolutions):
    """The sum of convolutions; on CPUs each adds to the one before as it goes.

    oneDNN can do this, and TensorFlow requests it when a bias is added as well. A bias of zeros
    from outside the graph is enough; a constant would be optimized away, and the saving with it.
    """
    total, *others = convolutions
    for other in others:
        if not tf.config.list_logical_devices("GPU"):
            with tf.init_scope():
                zeros = tf.zeros([other.shape[-1]], other.dtype)
            other = tf.nn.bias_add(other, zeros)
        total = other + total
    return total
