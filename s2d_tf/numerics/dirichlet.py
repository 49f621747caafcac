"""The Dirichlet distribution: concentrations, KL divergence and likelihood."""

from __future__ import annotations

import tensorflow as tf

from s2d_tf._types import TensorLike
from s2d_tf.numerics.special import trigamma
from s2d_tf.numerics.tensors import (
    as_float,
    check_classes,
    check_samples,
    floor_at_zero,
    normalized_log_probs,
)

# exp(+-20) keeps the log-gammas of the KL and their gradients finite in float64 with digits to
# spare, and is far outside of what a trained head predicts.
LOG_CONCENTRATION_LIMIT = 20.0


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
    if not p.shape[-1:].is_compatible_with(q.shape[-1:]):
        raise ValueError(
            "p, q: expected the same number of classes, received the shapes "
            f"{tuple(p.shape)} and {tuple(q.shape)}. Pass concentrations of the same classes."
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
