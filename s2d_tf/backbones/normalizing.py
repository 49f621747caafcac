"""Normalization by given statistics, in one pass over the feature maps.

All of it is TensorFlow's batch-norm kernel in its inference mode, which takes means and variances
as given. On CPUs with oneDNN that kernel is much slower where the channels are no multiple of
16, as in most places of DenseNet-BC. There, rows of neighboring pixels are seen as one pixel with
the channels of all: the same memory, with the statistics repeated for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import tensorflow as tf

LANES = 16


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
    if folded.shape.is_fully_defined() and folded.shape[1:] == like.shape[1:]:
        return folded
    return tf.ensure_shape(tf.reshape(folded, tf.shape(like)), like.shape)
