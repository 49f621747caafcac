"""Maximum-likelihood Dirichlet of a few categorical predictions (the proxy target of S2D).

With t_k the mean over samples of ln p_k, the likelihood is maximal where

    psi(a_k) - psi(a_0) = t_k,    a_0 = sum_k a_k.

Both methods run in float64, start from a closed form, and iterate on a small state until every row
has converged or `max_iterations` is reached. A row is left alone once it has converged, so its
answer does not depend on the batch it came in.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import tensorflow as tf

from s2d_tf import _types
from s2d_tf._types import TensorLike
from s2d_tf.numerics.divergences import LOG_CONCENTRATION_LIMIT
from s2d_tf.numerics.special import digamma, digamma_and_trigamma
from s2d_tf.numerics.tensor_checks import as_float, check_samples, normalized_log_probs, require

FIT_METHODS = _types.FIT_METHODS

# Samples that agree have no maximum-likelihood Dirichlet: the more concentrated, the better. The
# fit stops at this total, two decades above the largest that matter (1e6); float64 still resolves
# the equations to about 1e-5 there.
MAX_TOTAL_CONCENTRATION = 1e8

# What a head can represent; reached only by probabilities near exp(-5e8), or by `mean_precision`.
MIN_CONCENTRATION = math.exp(-LOG_CONCENTRATION_LIMIT)


# Relative step per unit of total concentration that is nothing but rounding: psi(a_k) - psi(a_0)
# has an absolute error near 1e-15, against a signal that shrinks like 1 / a_0.
_RESOLUTION = 1e-13


class DirichletFit(NamedTuple):
    """Concentrations and how they were reached.

    Example:

    >>> fit = numerics.fit_dirichlet_with_info(np.log([[0.7, 0.3], [0.5, 0.5]]))
    >>> fit.concentration.shape, int(fit.num_iterations) <= 20, bool(fit.residual < 1e-4)
    (TensorShape([2]), True, True)
    """

    concentration: tf.Tensor  # [..., K], in the dtype of the input
    num_iterations: tf.Tensor  # scalar int32, until the slowest row had converged
    residual: tf.Tensor  # [...] float64, relative size of the last step of each row


class _State(NamedTuple):
    iteration: tf.Tensor
    concentration: tf.Tensor  # [..., K]
    residual: tf.Tensor  # [...]
    is_active: tf.Tensor  # [...] bool, rows that still move


class _Statistics(NamedTuple):
    mean_log_probs: tf.Tensor  # [..., K], t
    mean_probs: tf.Tensor  # [..., K], m


def fit_dirichlet(
    log_probs: TensorLike, method: str = "newton", max_iterations: int = 20, tolerance: float = 1e-4
) -> tf.Tensor:
    """Fits a Dirichlet to categorical predictions by maximum likelihood.

    Args:
      log_probs: log-probabilities `[..., samples, K]`; they are normalized again in float64.
      method: `"newton"`, the exact maximum of the likelihood, or `"mean_precision"`, where the mean
        is held at the arithmetic mean of the probabilities and only the total concentration is
        fitted (Minka's generalized Newton). Under the second, a class with mean probability m gets
        m times the total, however small: its divergence from a student grows like 1 / m.
      max_iterations: bound on the iterations; 3 to 5 are typical.
      tolerance: a row has converged when its last step changed no concentration by more than this,
        relatively (plus what float64 cannot resolve: 1e-13 times the total). Convergence is
        quadratic, so the error left is near its square, below what float32 resolves.

    Returns:
      Concentrations `[..., K]` in the dtype of `log_probs`, always finite and positive.

      Where the maximum likelihood does not exist (one sample, or identical samples), or where its
      total exceeds `MAX_TOTAL_CONCENTRATION`, the answer is the most likely Dirichlet with that
      total: the mean of the samples times `MAX_TOTAL_CONCENTRATION` (with `"newton"`, classes whose
      product would be below about 1 get the concentration that matches their mean log-probability).

    The result is a target: the input is detached, so that no gradient passes and a tape does not
    record the iterations.

    Example:

    >>> samples = np.random.default_rng(0).dirichlet([8.0, 3.0, 1.0], size=1000)
    >>> numerics.fit_dirichlet(np.log(samples)).numpy().round()
    array([8., 3., 1.])
    """
    return fit_dirichlet_with_info(log_probs, method, max_iterations, tolerance).concentration


def fit_dirichlet_with_info(
    log_probs: TensorLike, method: str = "newton", max_iterations: int = 20, tolerance: float = 1e-4
) -> DirichletFit:
    """`fit_dirichlet`, with the number of iterations and the residuals (a `DirichletFit`).

    Example:

    >>> fit = numerics.fit_dirichlet_with_info(np.log([[0.7, 0.3], [0.5, 0.5]]))
    >>> bool(fit.residual < 1e-4)
    True
    """
    require(
        method in FIT_METHODS,
        f"method: expected one of {list(FIT_METHODS)}, received {method!r}. Pass one of them.",
    )
    require(
        max_iterations >= 1,
        f"max_iterations: expected at least 1, received {max_iterations!r}. The default is 20.",
    )
    log_probs = as_float(log_probs, "log_probs")
    check_samples(log_probs, "log_probs")
    normalized = normalized_log_probs(tf.stop_gradient(log_probs))
    statistics = _Statistics(
        mean_log_probs=tf.reduce_mean(normalized, axis=-2),
        mean_probs=tf.reduce_mean(tf.exp(normalized), axis=-2),
    )
    init, step = {
        "newton": (_init_newton, _step_newton),
        "mean_precision": (_init_mean_precision, _step_mean_precision),
    }[method]
    final = _iterate(init, step, statistics, max_iterations, tolerance)
    concentration = tf.maximum(final.concentration, MIN_CONCENTRATION)
    return DirichletFit(tf.cast(concentration, log_probs.dtype), final.iteration, final.residual)


def merge_dirichlets(
    concentrations: TensorLike, max_iterations: int = 20, tolerance: float = 1e-4
) -> tf.Tensor:
    """The one Dirichlet nearest to several: it minimizes the mean of `KL[Dir(member) || Dir(q)]`.

    That mean depends on the members only through their mean expected log-probabilities, t. The
    minimum is where q has the same, so it is the equation of `fit_dirichlet`, and
    `mean KL[member || q] = KL[merged || q]` plus a number that no q changes.

    Args:
      concentrations: `[..., members, K]`.
      max_iterations, tolerance: as for `fit_dirichlet`.

    Returns:
      Concentrations `[..., K]` in the dtype of the input; it always exists, and one member is its
      own. A total above `MAX_TOTAL_CONCENTRATION` is cut to that. No gradient passes.

    Example:

    >>> merged = numerics.merge_dirichlets([[9.0, 1.0], [1.0, 9.0]])
    >>> bool(merged[0] == merged[1]), bool(merged[0] < 5.0)
    (True, True)
    """
    concentrations = as_float(concentrations, "concentrations")
    check_samples(concentrations, "concentrations", samples="members")
    members = tf.cast(tf.stop_gradient(concentrations), tf.float64)
    totals = tf.reduce_sum(members, axis=-1, keepdims=True)
    statistics = _Statistics(
        mean_log_probs=tf.reduce_mean(digamma(members) - digamma(totals), axis=-2),
        mean_probs=tf.reduce_mean(members / totals, axis=-2),
    )
    final = _iterate(_init_newton, _step_newton, statistics, max_iterations, tolerance)
    return tf.cast(tf.maximum(final.concentration, MIN_CONCENTRATION), concentrations.dtype)


def _iterate(init, step, statistics, max_iterations, tolerance):
    def is_running(state):
        return tf.reduce_any(state.is_active)

    def advance(state):
        proposal = step(state.concentration, statistics)
        change = tf.reduce_max(tf.abs(proposal / state.concentration - 1.0), axis=-1)
        total = tf.reduce_sum(proposal, axis=-1)
        has_converged = change <= tolerance + _RESOLUTION * total
        is_active = tf.expand_dims(state.is_active, axis=-1)
        return (
            _State(
                iteration=state.iteration + 1,
                concentration=tf.where(is_active, proposal, state.concentration),
                residual=tf.where(state.is_active, change, state.residual),
                is_active=tf.logical_and(state.is_active, tf.logical_not(has_converged)),
            ),
        )

    concentration = init(statistics)
    row = concentration[..., 0]
    start = _State(
        iteration=tf.constant(0),
        concentration=concentration,
        residual=tf.fill(tf.shape(row), tf.constant(math.inf, tf.float64)),
        is_active=tf.ones_like(row, dtype=tf.bool),
    )
    (final,) = tf.while_loop(is_running, advance, (start,), maximum_iterations=max_iterations)
    return final


def _closed_form_total(statistics):
    """Total concentration from Stirling's formula: exact for large, within a factor 2 for small."""
    num_classes = tf.cast(tf.shape(statistics.mean_probs)[-1], tf.float64)
    log_mean_probs = tf.math.log(_safe_mean(statistics))
    spread = tf.reduce_sum(
        statistics.mean_probs * (log_mean_probs - statistics.mean_log_probs),
        axis=-1,
        keepdims=True,
    )
    smallest_spread = 0.5 * (num_classes - 1.0) / MAX_TOTAL_CONCENTRATION
    return 0.5 * (num_classes - 1.0) / tf.maximum(spread, smallest_spread)


def _init_newton(statistics):
    total = _closed_form_total(statistics)
    # 1 / ln(1 + exp(-y)) goes like -1/y and like exp(y) where the inverse of the digamma does.
    return 1.0 / tf.nn.softplus(-(statistics.mean_log_probs + digamma(total)))


def _step_newton(concentration, statistics):
    """One Newton step on all concentrations.

    The linear system is diagonal plus rank one: given v, the next psi(a_0), every class moves on
    its own by (v + t_k - psi(a_k)) / psi'(a_k), and these moves must add up to that of a_0. The
    equation for the total is nearly linear in 1 / a_0 (exactly so for very small and for very
    large concentrations), so the step is taken there. Where the total would pass its maximum, v is
    the smaller one that only reaches the maximum.
    """
    total = tf.reduce_sum(concentration, axis=-1, keepdims=True)
    digammas, trigammas = digamma_and_trigamma(tf.concat([concentration, total], axis=-1))
    digamma_total, trigamma_total = digammas[..., -1:], trigammas[..., -1:]
    weights = 1.0 / trigammas[..., :-1]
    gaps = statistics.mean_log_probs + digamma_total - digammas[..., :-1]
    sum_weights = tf.reduce_sum(weights, axis=-1, keepdims=True)
    weighted_gap = tf.reduce_sum(weights * gaps, axis=-1, keepdims=True)
    # Positive, as the likelihood is concave; (K - 1) / (2 a_0) when all concentrations are large.
    curvature = tf.maximum(1.0 - trigamma_total * sum_weights, 1e-15)
    relative_total = weighted_gap / (curvature * total)
    next_total = total / tf.maximum(1.0 - relative_total, total / MAX_TOTAL_CONCENTRATION)
    shift = digamma(next_total) - digamma_total
    largest_shift = (MAX_TOTAL_CONCENTRATION - total - weighted_gap) / sum_weights
    return _move(concentration, weights, gaps + tf.minimum(shift, largest_shift))


def _move(concentration, weights, digamma_change):
    """Concentrations after a change of their digammas; `weights` are 1 / psi'(a).

    A Newton step with Halley's correction for curvature, -a psi''(a) / (2 psi'(a)), replaced by
    1 - 1 / (2 a psi'(a)): the same where digamma is -1/a and where it is ln a, and within 0.06
    between. Long steps are tempered so that none leaves the positive numbers.
    """
    ratio = weights / concentration
    relative = ratio * digamma_change
    curvature = tf.where(relative < -1.0, tf.ones_like(ratio), 1.0 - 0.5 * ratio)
    return concentration * (1.0 + relative / (1.0 - tf.minimum(curvature * relative, 0.5)))


def _init_mean_precision(statistics):
    return _closed_form_total(statistics) * _safe_mean(statistics)


def _safe_mean(statistics):
    # psi(m s) m tends to -1/s, not to 0, as m vanishes: an underflow must not reach 0 * infinity.
    return tf.maximum(statistics.mean_probs, 1e-100)


def _step_mean_precision(concentration, statistics):
    """Minka's generalized Newton step: fits c_1 + c_2 / s to the likelihood, so linear in 1/s."""
    mean = _safe_mean(statistics)
    total = tf.reduce_sum(concentration, axis=-1, keepdims=True)
    digammas, trigammas = digamma_and_trigamma(tf.concat([mean * total, total], axis=-1))
    slope = digammas[..., -1:] + tf.reduce_sum(
        mean * (statistics.mean_log_probs - digammas[..., :-1]), axis=-1, keepdims=True
    )
    curvature = trigammas[..., -1:] - tf.reduce_sum(
        mean * mean * trigammas[..., :-1], axis=-1, keepdims=True
    )
    inverse_total = 1.0 / total + slope / (tf.square(total) * tf.minimum(curvature, -1e-300))
    return mean / tf.maximum(inverse_total, 1.0 / MAX_TOTAL_CONCENTRATION)
