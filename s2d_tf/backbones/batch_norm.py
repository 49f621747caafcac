"""Batch norm for CPUs: fused kernels, and statistics that the units of a dense block share.

Keras 3 normalizes with separate operations (mean, squared difference, products), each a pass over
the memory, and in DenseNet-BC that memory is most of the work: every unit of a dense block
normalizes all feature maps before it. Five ideas make it fast and leave the result as it is:

- One kernel. `BatchNormalization` is Keras' layer through TensorFlow's fused kernel.
- Shared statistics. Batch means and variances of a feature map do not depend on the unit that
  normalizes it. `Moments` computes them once for each map; `SharedBatchNormalization` holds what
  is a unit's own, its scale, offset and moving averages. Exact, and a tenth of the reads in
  DenseNet-BC-100-12.
- Nothing is stored twice. `NormalizedConv2D` normalizes as the first part of its convolution and
  keeps its input only: the backward pass normalizes again, which takes less time than the memory
  of a second copy of all feature maps is worth. Nor does it need the maps in one piece: the
  convolution of a concatenation is the sum of the convolutions of its parts.
- A batch norm that follows a convolution is a part of it at prediction: `FOLDABLE`.
- Full lanes. On CPUs with oneDNN the kernel is much slower where the channels are no multiple of
  16, as in most places of DenseNet-BC. There, neighboring pixels are seen as one pixel with the
  channels of all: the same memory, with the statistics repeated for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.ops import control_flow_util

from s2d_tf._types import Shape

LANES = 16

FOLDABLE = "_s2d_scaled_and_shifted"
"""The attribute of a convolution's outputs that computes them with a scale and an offset of each
channel: a batch norm by moving statistics multiplies the kernel instead of the maps. Whatever lies
between the two, such as dropout that is active, makes another tensor, without it."""


@keras.saving.register_keras_serializable(package="s2d_tf")
class BatchNormalization(keras.layers.BatchNormalization):
    """`keras.layers.BatchNormalization`, faster.

    Float32 and bfloat16 batches `[batch, height, width, channels]` go through one kernel forward
    and one backward, with statistics in float32. Weights, config, outputs and
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
            beta, mean, variance = (tf.convert_to_tensor(part) for part in parts)
            if scaled_and_shifted := getattr(inputs, FOLDABLE, None):
                scale = self._gamma() * tf.math.rsqrt(variance + self.epsilon)
                return scaled_and_shifted(scale, beta - mean * scale)
            statistics = tf.stack([self._gamma(), beta, mean, variance])
            return normalize(inputs, statistics, self.epsilon)
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
        return moments(inputs)

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
        channels = sum(shape[-1] for shape in inputs_shape)
        super().build((*inputs_shape[0][:-1], channels))
        self.input_spec = None

    def call(
        self, inputs: list[tf.Tensor], statistics: tf.Tensor, training: bool | None = None
    ) -> tf.Tensor:
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

        def scaled_and_shifted(scale, offset):
            # Not earlier, or the normalized maps of several units are alive at once.
            with tf.control_dependencies([maps[-1]]):
                later = [tf.identity(x) for x in maps]
            convolutions = [
                self._forward(*part) for part in parts(statistics, kernel * scale, *later)
            ]
            return _add(convolutions, offset)

        maps = [tf.cast(x, self.compute_dtype) for x in inputs]
        kernel = tf.cast(self.kernel, self.compute_dtype)
        outputs = convolve(statistics, kernel, *maps)
        # Graphs drop outputs that nobody uses. In half precision a rounded offset would be an error
        # of a whole channel.
        if not training and not tf.executing_eagerly() and self.compute_dtype == "float32":
            setattr(outputs, FOLDABLE, scaled_and_shifted)
        return outputs

    def _forward(self, x, statistics, kernel):
        return self._convolve(normalize(x, statistics, self.epsilon, relu=True), kernel)

    def _convolve(self, x, kernel):
        return tf.nn.conv2d(x, kernel, self.strides, self.padding.upper())

    def _backward(self, x, statistics, kernel, upstream):
        with tf.control_dependencies([upstream]):  # Not earlier, or both copies are alive at once.
            x = tf.identity(x)
        activated = normalize(x, statistics, self.epsilon, relu=True)
        with tf.GradientTape() as tape:
            tape.watch([activated, kernel])
            outputs = self._convolve(activated, kernel)
        by_activated, by_kernel = tape.gradient(outputs, [activated, kernel], upstream)
        by_normalized = tf.raw_ops.ReluGrad(gradients=by_activated, features=activated)
        by_x, by_statistics = normalize_gradient(by_normalized, x, statistics, self.epsilon)
        return by_x, by_statistics, by_kernel

    def compute_output_spec(
        self,
        inputs: list[keras.KerasTensor],
        statistics: keras.KerasTensor,
        training: bool | None = None,
    ) -> keras.KerasTensor:
        shape = self.compute_output_shape(inputs[0].shape)
        return keras.KerasTensor(shape, self.compute_dtype)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "epsilon": self.epsilon}


def _add(convolutions, offset=None):
    """The sum of convolutions; on CPUs each adds to the one before as it goes.

    oneDNN can do this, and TensorFlow requests it when a bias is added as well. A bias of zeros
    from outside the graph is enough; a constant would be optimized away, and the saving with it.
    """
    total, *others = convolutions
    if offset is not None:
        total = tf.nn.bias_add(total, offset)
    for other in others:
        if not tf.config.list_logical_devices("GPU"):
            with tf.init_scope():
                zeros = tf.zeros([other.shape[-1]], other.dtype)
            other = tf.nn.bias_add(other, zeros)
        total = other + total
    return total


def normalize(x: tf.Tensor, statistics: tf.Tensor, epsilon: float, relu: bool = False) -> tf.Tensor:
    """Batch norm by given statistics, optionally with ReLU, in one kernel.

    Args:
        x: feature maps `[batch, height, width, K]`, in single or half precision.
        statistics: float32 `[4, K]`: scale, offset, mean and variance of each channel.
        epsilon: added to the variance.
        relu: whether negative values become 0.

    Returns:
        Feature maps of the same shape.
    """
    folded, statistics = _fold(x, statistics)
    gamma, beta, mean, variance = tf.unstack(statistics)
    outputs = tf.raw_ops.FusedBatchNormV3(
        x=folded,
        scale=gamma,
        offset=beta,
        mean=mean,
        variance=variance,
        epsilon=epsilon,
        is_training=False,
    ).y
    return _unfold(tf.nn.relu(outputs) if relu else outputs, x)


def normalize_gradient(
    upstream: tf.Tensor, x: tf.Tensor, statistics: tf.Tensor, epsilon: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Gradients of `normalize` without ReLU by the feature maps and by the statistics.

    With s = 1 / sqrt(variance + epsilon), y = gamma s (x - mean) + beta has, summed over the batch
    and the pixels, dL/dmean = -gamma s dL/dbeta and dL/dvariance = -gamma s^2 / 2 dL/dgamma: the
    kernel that takes the statistics for constants says all that is needed.
    """
    gamma, _, _, variance = tf.unstack(statistics)
    folded, repeated = _fold(x, statistics)
    found = tf.raw_ops.FusedBatchNormGradV3(
        y_backprop=_fold(upstream, statistics)[0],
        x=folded,
        scale=repeated[0],
        reserve_space_1=repeated[2],
        reserve_space_2=repeated[3],
        reserve_space_3=tf.zeros([0]),
        epsilon=epsilon,
        is_training=False,
    )
    by_gamma, by_beta = (
        tf.reduce_sum(tf.reshape(part, [-1, x.shape[-1]]), axis=0)
        for part in (found.scale_backprop, found.offset_backprop)
    )
    inverse = tf.math.rsqrt(variance + epsilon)
    by_mean = -gamma * inverse * by_beta
    by_variance = -0.5 * gamma * inverse * inverse * by_gamma
    by_statistics = tf.stack([by_gamma, by_beta, by_mean, by_variance])
    return _unfold(found.x_backprop, x), by_statistics


@tf.custom_gradient
def moments(x: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
    """Mean and variance of each channel over batch and pixels, `[..., K]` -> `[2, K]`."""
    axes = list(range(len(x.shape) - 1))
    mean = tf.reduce_mean(x, axes)
    variance = tf.reduce_mean(tf.math.squared_difference(x, mean), axes)

    def backward(upstream):
        by_mean, by_variance = tf.unstack(upstream)
        count = tf.cast(tf.size(x) // x.shape[-1], x.dtype)
        # The gradient (dL/dmean + 2 (x - mean) dL/dvariance) / count has the form of a batch norm.
        scale, offset = 2.0 * by_variance / count, by_mean / count
        return normalize(x, tf.stack([scale, offset, mean, tf.ones_like(mean)]), 0.0)

    return tf.stack([mean, variance]), backward


def _fold(x, statistics):
    """Neighboring pixels as one with more channels, so that these are a multiple of `LANES`."""
    _, height, width, channels = x.shape
    times = LANES // math.gcd(LANES, channels)
    if times == 1:
        return x, statistics
    if height is None or width is None:
        height, width = tf.unstack(tf.shape(x)[1:3])
        times = tf.where(height * width % times == 0, times, 1)
    elif height * width % times:
        return x, statistics
    folded = tf.reshape(x, [-1, height * width // times, 1, times * channels])
    return folded, tf.tile(statistics, [1, times])


def _unfold(folded, like):
    # Fixed sizes have a fixed shape: a computed one would keep TensorFlow from fusing operations,
    # and with it training would round differently.
    if like.shape[1:].is_fully_defined():
        same = folded.shape[1:] == like.shape[1:]
        return folded if same else tf.reshape(folded, [-1, *like.shape[1:]])
    return tf.ensure_shape(tf.reshape(folded, tf.shape(like)), like.shape)


def _compiled_by_xla():
    return control_flow_util.GraphOrParentsInXlaContext(tf.compat.v1.get_default_graph())
