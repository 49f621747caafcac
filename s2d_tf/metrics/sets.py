"""Prediction sets: how often they contain the label, and how large they are.

`sets` are booleans `[examples, classes]`, true where a class is in the set.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from s2d_tf._types import ArrayLike
from s2d_tf.metrics import checks


class SizeStratifiedCoverage(NamedTuple):
    """One entry for each size that occurs, from the smallest.

    Example:

    >>> sets = np.array([[True, False], [True, True], [False, True]])
    >>> found = metrics.size_stratified_coverage(sets, [0, 1, 0])
    >>> found.size.tolist(), found.coverage.tolist()
    ([1, 2], [0.5, 1.0])
    """

    size: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # also a method of tuples
    coverage: np.ndarray


def set_coverage(sets: ArrayLike, labels: ArrayLike) -> float:
    """The fraction of sets that contain the label.

    Example:

    >>> metrics.set_coverage(np.array([[True, False], [True, True]]), [0, 1])
    1.0
    """
    return float(np.mean(_covered(sets, labels)))


def set_coverage_interval(
    sets: ArrayLike, labels: ArrayLike, level: float = 0.95
) -> tuple[float, float]:
    """Clopper and Pearson's interval of the coverage of new examples, for these fixed sets.

    Args:
        sets: `[examples, classes]`.
        labels: `[examples]`.
        level: confidence of the interval.

    Example:

    >>> sets = np.tile([[True, False]], [100, 1])
    >>> low, high = metrics.set_coverage_interval(sets, np.zeros(100, int))
    >>> round(low, 3), high
    (0.964, 1.0)
    """
    from scipy import stats

    covered = _covered(sets, labels)
    hits, count, tail = covered.sum(), covered.size, (1.0 - level) / 2.0
    low = stats.beta.ppf(tail, hits, count - hits + 1) if hits else 0.0
    high = stats.beta.ppf(1.0 - tail, hits + 1, count - hits) if hits < count else 1.0
    return float(low), float(high)


def conformal_coverage_interval(
    num_calibration: int, num_test: int, coverage: float, level: float = 0.95
) -> tuple[float, float]:
    """Where the observed coverage of valid conformal sets is, over draws of both samples.

    With k = ceil((n + 1) coverage) of n calibration examples, the number of covered test examples
    is beta-binomial with parameters k and n + 1 - k, if scores have no ties.

    Args:
        num_calibration, num_test: numbers of examples.
        coverage: the target coverage.
        level: chance that the observed coverage is in the interval.

    Example:

    >>> metrics.conformal_coverage_interval(num_calibration=1000, num_test=1000, coverage=0.9)
    (0.873, 0.925)
    """
    from scipy import stats

    rank = int(np.ceil((num_calibration + 1) * coverage - 1e-9))
    law = stats.betabinom(num_test, rank, num_calibration + 1 - rank)
    tail = (1.0 - level) / 2.0
    return float(law.ppf(tail) / num_test), float(law.ppf(1.0 - tail) / num_test)


def mean_set_size(sets: ArrayLike) -> float:
    """The mean number of classes in a set.

    Example:

    >>> metrics.mean_set_size(np.array([[True, False], [True, True]]))
    1.5
    """
    return float(np.mean(np.sum(_as_sets(sets), axis=-1)))


def size_stratified_coverage(sets: ArrayLike, labels: ArrayLike) -> SizeStratifiedCoverage:
    """Coverage among the sets of each size: small where small sets promise too much.

    Example:

    >>> sets = np.array([[True, False], [True, True], [False, True]])
    >>> metrics.size_stratified_coverage(sets, [0, 1, 0]).coverage.tolist()
    [0.5, 1.0]
    """
    covered = _covered(sets, labels)
    sizes = _as_sets(sets).sum(axis=-1)
    found, group = np.unique(sizes, return_inverse=True)
    count = np.bincount(group)
    hits = np.bincount(group, weights=covered)
    return SizeStratifiedCoverage(found, count, hits / count)


def _as_sets(sets):
    sets = np.asarray(sets)
    if sets.ndim != 2 or sets.dtype != bool or not sets.size:
        raise ValueError(
            "sets: expected booleans [examples, classes], received an array of shape "
            f"{sets.shape} and type {sets.dtype}. Use `predict_sets` of posthoc.ConformalSets."
        )
    return sets


def _covered(sets, labels):
    sets = _as_sets(sets)
    labels = checks.as_labels(labels, *sets.shape)
    return sets[np.arange(len(labels)), labels]
