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
    test = stats.binomtest(int(covered.sum()), covered.size)
    interval = test.proportion_ci(level, method="exact")
    return float(interval.low), float(interval.high)


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
