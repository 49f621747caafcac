"""How far two scores order the same examples alike."""

from __future__ import annotations

import numpy as np

from s2d_tf._types import ArrayLike
from s2d_tf.metrics import checks


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
    from scipy import stats

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
