"""The diagonal normal distribution over log-concentrations (H2D-Gauss)."""

from __future__ import annotations

import tensorflow as tf

from s2d_tf._types import TensorLike
from s2d_tf.numerics.tensors import as_float, check_samples, floor_at_zero

# A scale of 1e-3 means concentrations known to 0.1%, closer than members ever agree. Below it, and
# at 0 for a single member, the KL divergence would only grow with the logarithm of rounding errors.
MIN_SCALE = 1e-3


def fit_normal(log_concentrations: TensorLike) -> tuple[tf.Tensor, tf.Tensor]:
    """Maximum-likelihood normal of each class over the members.

    Args:
      log_concentrations: `[..., members, K]`.

    Returns:
      `loc` and `scale`, each `[..., K]`: the mean and the standard deviation with 1/M, as the paper
      has it, floored at `MIN_SCALE`. For one member, or members that agree, the maximum likelihood
      has no finite density, and the scale is `MIN_SCALE`.

    Example:

    >>> loc, scale = numerics.fit_normal([[1.0, 5.0], [3.0, 5.0]])
    >>> loc.numpy(), scale.numpy()
    (array([2., 5.], dtype=float32), array([1.   , 0.001], dtype=float32))
    """
    log_concentrations = as_float(log_concentrations, "log_concentrations")
    check_samples(log_concentrations, "log_concentrations", samples="members")
    values = tf.cast(log_concentrations, tf.float64)
    loc = tf.reduce_mean(values, axis=-2)
    variance = tf.reduce_mean(tf.square(values - tf.expand_dims(loc, axis=-2)), axis=-2)
    # The floor is applied to the variance: the root has no finite slope at zero.
    scale = tf.sqrt(tf.maximum(variance, MIN_SCALE**2))
    return tf.cast(loc, log_concentrations.dtype), tf.cast(scale, log_concentrations.dtype)


def normal_kl_divergence(
    p_loc: TensorLike, p_scale: TensorLike, q_loc: TensorLike, q_scale: TensorLike
) -> tf.Tensor:
    """KL[N(p_loc, p_scale^2) || N(q_loc, q_scale^2)] in nats, summed over the last axis.

    Computed in float64 by TensorFlow Probability; returned in the dtype of `p_loc`, never negative.

    Example:

    >>> zeros, ones = np.zeros(2), np.ones(2)
    >>> float(numerics.normal_kl_divergence(ones, ones, zeros, ones))
    1.0
    """
    from tensorflow_probability import distributions as tfd

    p_loc, p_scale = as_float(p_loc, "p_loc"), as_float(p_scale, "p_scale")
    q_loc, q_scale = as_float(q_loc, "q_loc"), as_float(q_scale, "q_scale")
    divergence = tfd.kl_divergence(
        tfd.Normal(tf.cast(p_loc, tf.float64), tf.cast(p_scale, tf.float64)),
        tfd.Normal(tf.cast(q_loc, tf.float64), tf.cast(q_scale, tf.float64)),
    )
    return tf.cast(floor_at_zero(tf.reduce_sum(divergence, axis=-1)), p_loc.dtype)
