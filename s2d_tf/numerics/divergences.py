"""Divergences of the two distributions that students predict, their likelihood and their fit.

The Dirichlet, by concentrations or by a head's logits, and the diagonal normal distribution over
log-concentrations (H2D-Gauss). The maximum-likelihood Dirichlet is in `dirichlet_fit`.
"""

from __future__ import annotations

import tensorflow as tf

from s2d_tf._types import TensorLike
from s2d_tf.numerics.special import trigamma
from s2d_tf.numerics.tensor_checks import (
    as_float,
    check_classes,
    check_samples,
    floor_at_zero,
    normalized_log_probs,
    require,
)

# exp(+-20) keeps the log-gammas of the KL and their gradients finite in float64 with digits to
# spare, and is far outside of what a trained head predicts.
LOG_CONCENTRATION_LIMIT = 20.0

# A scale of 1e-3 means concentrations known to 0.1%, closer than members ever agree. Below it, and
# at 0 for a single member, the KL divergence would only grow with the logarithm of rounding errors.
MIN_SCALE = 1e-3


def concentrations_from_logits(logits: TensorLike) -> tf.Tensor:
    """Dirichlet concentrations of a head's logits: exp of the logits, clipped to +-20 before.

    This is the one place that clips. Probabilities must be taken from the logits themselves
    (`softmax`), never from these concentrations.

    Example:

    >>> numerics.concentrations_from_logits([0.0, np.log(4.0)]).numpy().round(3)
    array([1., 4.], dtype=float32)
    """
    logits = as_float(logits, "logits")
    limit = LOG_CONCENTRATION_LIMIT
    return tf.exp(tf.clip_by_value(logits, -limit, limit))


def dirichlet_kl_divergence(p: TensorLike, q: TensorLike) -> tf.Tensor:
    """KL[Dir(p) || Dir(q)] in nats.

    Args:
      p: concentrations `[..., K]`.
      q: concentrations `[..., K]`; leading axes broadcast against those of `p`.

    Returns:
      `[...]`, in the dtype of `p`, never negative. Computed in float64 by TensorFlow Probability:
      in float32 it would be off by 2 nats at total concentration 1e6. The floor at 0 only removes
      rounding; the gradient is that of the divergence itself.

    Example:

    >>> float(numerics.dirichlet_kl_divergence([2.0, 1.0], [2.0, 1.0]))
    0.0
    >>> divergence = numerics.dirichlet_kl_divergence([[9.0, 1.0], [1.0, 1.0]], [1.0, 1.0])
    >>> divergence.numpy().round(3)
    array([1.308, 0.   ], dtype=float32)
    """
    from tensorflow_probability import distributions as tfd

    p, q = as_float(p, "p"), as_float(q, "q")
    check_classes(p, "p")
    check_classes(q, "q")
    require(
        p.shape[-1:].is_compatible_with(q.shape[-1:]),
        "p, q: expected the same number of classes, received the shapes "
        f"{tuple(p.shape)} and {tuple(q.shape)}. Pass concentrations of the same classes.",
    )
    divergence = tfd.kl_divergence(
        tfd.Dirichlet(tf.cast(p, tf.float64)), tfd.Dirichlet(tf.cast(q, tf.float64))
    )
    return tf.cast(floor_at_zero(divergence), p.dtype)


def dirichlet_fisher_distance(concentration: TensorLike, log_ratio: TensorLike) -> tf.Tensor:
    """The KL divergence of a Dirichlet from one nearby, to second order in log-concentrations.

    With F the Fisher information of Dir(a) in ln a and d the difference of log-concentrations,

        d'F d / 2 = (sum_c a_c^2 psi'(a_c) d_c^2 - psi'(a_0) (sum_c a_c d_c)^2) / 2,

    the same for both directions of the divergence. Since x^2 psi'(x) < x + 1, no eigenvalue of F
    exceeds the largest concentration plus 1.

    Args:
      concentration: a, `[..., K]`; no gradient passes to it.
      log_ratio: d, `[..., K]`.

    Returns:
      `[...]`, in the dtype of `log_ratio`, never negative.

    Example:

    >>> concentration, log_ratio = np.array([5.0, 2.0, 1.0]), np.array([0.1, -0.1, 0.0])
    >>> distance = numerics.dirichlet_fisher_distance(concentration, log_ratio)
    >>> exact = numerics.dirichlet_kl_divergence(concentration * np.exp(log_ratio), concentration)
    >>> round(float(distance), 3), round(float(exact), 3)
    (0.035, 0.034)
    """
    concentration = as_float(concentration, "concentration")
    log_ratio = as_float(log_ratio, "log_ratio")
    check_classes(concentration, "concentration")
    a, d = tf.cast(tf.stop_gradient(concentration), tf.float64), tf.cast(log_ratio, tf.float64)
    squares = tf.reduce_sum(tf.square(a * d) * trigamma(a), axis=-1)
    total = tf.reduce_sum(a, axis=-1)
    distance = 0.5 * (squares - trigamma(total) * tf.square(tf.reduce_sum(a * d, axis=-1)))
    return tf.cast(floor_at_zero(distance), log_ratio.dtype)


def dirichlet_negative_log_likelihood(
    log_probs: TensorLike, concentration: TensorLike
) -> tf.Tensor:
    """Mean negative log-density of categorical predictions under a Dirichlet (eq. 3 of the paper).

    Args:
      log_probs: log-probabilities `[..., M, K]`; they are normalized again in float64.
      concentration: `[..., K]`.

    Returns:
      `[...]`, the mean over the M samples, in the dtype of `concentration`. It is a density, so it
      may be negative.

    Example:

    >>> log_probs = np.log([[0.7, 0.3], [0.6, 0.4]])
    >>> flat = numerics.dirichlet_negative_log_likelihood(log_probs, [1.0, 1.0])
    >>> near = numerics.dirichlet_negative_log_likelihood(log_probs, [13.0, 7.0])
    >>> bool(near < flat)
    True
    """
    log_probs, concentration = (
        as_float(log_probs, "log_probs"),
        as_float(concentration, "concentration"),
    )
    check_samples(log_probs, "log_probs")
    check_classes(concentration, "concentration")
    mean_log_probs = tf.reduce_mean(normalized_log_probs(log_probs), axis=-2)
    concentration64 = tf.cast(concentration, tf.float64)
    log_normalizer = tf.reduce_sum(tf.math.lgamma(concentration64), axis=-1) - tf.math.lgamma(
        tf.reduce_sum(concentration64, axis=-1)
    )
    log_kernel = tf.reduce_sum((concentration64 - 1.0) * mean_log_probs, axis=-1)
    return tf.cast(log_normalizer - log_kernel, concentration.dtype)


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
