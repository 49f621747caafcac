"""Statistics of numbers and scores: how certain a mean is, how alike two orders are."""

from __future__ import annotations

import numpy as np
from scipy import stats

from s2d_tf._types import ArrayLike
from s2d_tf.metrics import checks

LEVEL = 0.95


def mean_interval(
    values: ArrayLike, level: float = LEVEL
) -> tuple[float | None, float | None, float | None]:
    """Mean of independent values, and the ends of Student's interval for it.

    Of the differences of pairs it is the interval of the paired t-test.

    Args:
        values: of examples or of seeds.
        level: how often the interval holds the true mean.

    Returns:
        `(mean, low, high)`. The ends are `None` for a single value; all is `None` where a value is
        infinite or NaN.

    Example:

    >>> mean, low, high = metrics.mean_interval([0.1, 0.2, 0.3])
    >>> print(f"{mean:.2f} ({low:.2f} to {high:.2f})")
    0.20 (-0.05 to 0.45)
    """
    values = np.asarray(values, np.float64)
    if not np.isfinite(values).all():
        return None, None, None
    mean = float(values.mean())
    if values.size < 2:
        return mean, None, None
    quantile = stats.t.ppf((1 + level) / 2, values.size - 1)
    half = float(quantile * values.std(ddof=1) / np.sqrt(values.size))
    return mean, mean - half, mean + half


def rank_correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Spearman's rank correlation of two scores of the same examples, from -1 to 1; ties averaged.

    Of data and knowledge uncertainty, 1 means that both put the examples into one order, so that
    the second says nothing that the first does not.

    Args:
        first: scores `[n]`, at least two.
        second: other scores of the same examples.

    Returns:
        The correlation; 0 where a score is constant, which orders nothing.

    Example:

    >>> round(metrics.rank_correlation([1.0, 2.0, 3.0], [10.0, 30.0, 20.0]), 6)
    0.5
    """
    first, second = checks.as_scores(first, "first"), checks.as_scores(second, "second")
    if first.size != second.size or first.size < 2:
        raise ValueError(
            "first and second: expected scores of the same examples, at least two, received "
            f"{first.size} and {second.size}. Pass both scores of every example."
        )
    ranks = [stats.rankdata(scores) for scores in (first, second)]
    if min(np.ptp(rank) for rank in ranks) == 0:
        return 0.0
    return float(np.corrcoef(*ranks)[0, 1])
