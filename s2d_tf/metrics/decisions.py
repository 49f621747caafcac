"""Decisions made with uncertainty: to abstain where it is largest, and sets of possible classes.

Abstention: `scores` are uncertainties (a larger one is rejected earlier), `errors` are 1 where the
prediction is wrong. Examples with equal scores are accepted or rejected together, so nothing
depends on the order of the examples.

Prediction sets: `sets` are booleans `[examples, classes]`, true where a class is in the set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from s2d_tf._types import Array, ArrayLike
from s2d_tf.errors import UserError
from s2d_tf.metrics import checks


class RiskCoverageCurve(NamedTuple):
    """One entry per distinct score, from the smallest coverage to 1.

    `selective_risk` is the error rate among the accepted, `generalized_risk` the fraction of all
    examples that are both accepted and wrong, `threshold` the largest accepted score.

    Example:

    >>> curve = metrics.risk_coverage_curve(scores=[0.1, 0.5, 0.9], errors=[0, 0, 1])
    >>> curve.coverage.round(2).tolist(), curve.selective_risk.round(2).tolist()
    ([0.33, 0.67, 1.0], [0.0, 0.0, 0.33])
    """

    coverage: np.ndarray
    selective_risk: np.ndarray
    generalized_risk: np.ndarray
    threshold: np.ndarray


def risk_coverage_curve(scores: ArrayLike, errors: ArrayLike) -> RiskCoverageCurve:
    """Risk against coverage at every threshold that the scores can tell apart.

    Example:

    >>> curve = metrics.risk_coverage_curve(scores=[0.1, 0.5, 0.9], errors=[0, 0, 1])
    >>> curve.selective_risk.round(2).tolist()
    [0.0, 0.0, 0.33]
    """
    scores = checks.as_scores(scores, "scores")
    errors = checks.as_errors(errors, scores.size)
    threshold, group = np.unique(scores, return_inverse=True)
    accepted = np.cumsum(np.bincount(group))
    wrong = np.cumsum(np.bincount(group, weights=errors))
    return RiskCoverageCurve(
        coverage=accepted / scores.size,
        selective_risk=wrong / accepted,
        generalized_risk=wrong / scores.size,
        threshold=threshold,
    )


def area_under_risk_coverage(scores: ArrayLike, errors: ArrayLike) -> float:
    """AURC: the selective risk at each example's own score, averaged over the examples.

    Without ties this is the mean error rate over the coverages 1/n, 2/n, ..., 1. Constant scores
    give the error rate, all right gives 0, all wrong 1.

    Example:

    >>> round(metrics.area_under_risk_coverage(scores=[0.1, 0.5, 0.9], errors=[0, 0, 1]), 4)
    0.1111
    """
    curve = risk_coverage_curve(scores, errors)
    return float(np.sum(np.diff(curve.coverage, prepend=0.0) * curve.selective_risk))


def area_under_generalized_risk_coverage(scores: ArrayLike, errors: ArrayLike) -> float:
    """AUGRC: the area under the generalized risk, from coverage 0, by trapezoids.

    The average over all coverages of the chance that an example is accepted and wrong. It equals
    `(1 - AUROC) acc (1 - acc) + (1 - acc)^2 / 2` with the AUROC of the scores for errors. Constant
    scores give half the error rate, all right gives 0, all wrong 1/2.

    Example:

    >>> scores, errors = [0.1, 0.5, 0.9], [0, 0, 1]
    >>> round(metrics.area_under_generalized_risk_coverage(scores, errors), 4)
    0.0556
    """
    curve = risk_coverage_curve(scores, errors)
    risk = np.append(0.0, curve.generalized_risk)
    widths = np.diff(curve.coverage, prepend=0.0)
    return float(np.sum(widths * (risk[:-1] + risk[1:])) / 2.0)


def risk_after_rejection(
    scores: ArrayLike, errors: ArrayLike, rejected: ArrayLike
) -> float | Array:
    """Error rate of what is left when the fraction `rejected` with the largest scores is rejected.

    Inside a group of equal scores the rejected ones are taken at random, and the answer is the
    expectation. `rejected` is a number or an array in `[0, 1)`.

    Example:

    >>> metrics.risk_after_rejection(scores=[0.1, 0.5, 0.9, 0.7], errors=[0, 0, 1, 1], rejected=0.5)
    0.0
    """
    fractions = np.asarray(rejected, dtype=np.float64)
    UserError.unless(
        np.all((fractions >= 0.0) & (fractions < 1.0)),
        "rejected: expected fractions in [0, 1), received "
        f"{rejected!r}. Leave some examples to score.",
    )
    curve = risk_coverage_curve(scores, errors)
    coverage = 1.0 - fractions
    wrong = np.interp(
        coverage, np.append(0.0, curve.coverage), np.append(0.0, curve.generalized_risk)
    )
    risk = wrong / coverage
    return float(risk) if risk.ndim == 0 else risk


def set_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """The fraction of sets that contain the label.

    Example:

    >>> metrics.set_coverage(np.array([[True, False], [True, True]]), [0, 1])
    1.0
    """
    held = _as_sets(sets)
    labels = checks.as_labels(labels, *held.shape)
    return float(np.mean(held[np.arange(len(labels)), labels]))


def mean_set_size(sets: ArrayLike) -> float:
    """The mean number of classes in a set.

    Example:

    >>> metrics.mean_set_size(np.array([[True, False], [True, True]]))
    1.5
    """
    return float(np.mean(np.sum(_as_sets(sets), axis=-1)))


def _as_sets(sets):
    sets = np.asarray(sets)
    UserError.unless(
        sets.ndim == 2 and sets.dtype == bool and sets.size,
        "sets: expected booleans [examples, classes], received an array of shape "
        f"{sets.shape} and type {sets.dtype}. Use `predict_sets` of posthoc.ConformalSets.",
    )
    return sets
