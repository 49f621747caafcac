"""The spread of a metric over seeds, and the paired difference of two methods.

Single runs get bootstrap intervals over the test examples instead, see `intervals`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from s2d_tf._types import ArrayLike
from s2d_tf.metrics import checks
from s2d_tf.metrics.statistics import mean_interval


@dataclasses.dataclass(frozen=True)
class SeedComparison:
    """A paired comparison over seeds; differences are first minus second.

    `low` and `high` are Student's 95% interval for the mean difference, None for a single pair;
    `positive` and `negative` count the signs.
    """

    num_pairs: int
    mean_difference: float
    low: float | None
    high: float | None
    positive: int
    negative: int


def mean_and_two_std(values: ArrayLike) -> tuple[float, float | None]:
    """Mean and two sample standard deviations (divisor n - 1) over seeds.

    The second is None for a single value. Five seeds give only a rough standard deviation: the true
    one lies between 0.6 and 2.9 times it, at 95%.
    """
    values = checks.as_scores(values, "values")
    return float(values.mean()), float(2.0 * values.std(ddof=1)) if values.size > 1 else None


def compare_over_seeds(values_a: ArrayLike, values_b: ArrayLike) -> SeedComparison:
    """Paired comparison of a metric of two methods, one pair per seed; differences are a - b."""
    values_a = checks.as_scores(values_a, "values_a")
    values_b = checks.as_scores(values_b, "values_b")
    if values_a.size != values_b.size:
        raise ValueError(
            "values_a and values_b: expected values paired by seed, received "
            f"{values_a.size} and {values_b.size}. Pass those of seeds that both have."
        )
    differences = values_a - values_b
    signs = int((differences > 0).sum()), int((differences < 0).sum())
    interval: tuple[Any, Any, Any] = mean_interval(differences)  # Finite, so it has a mean.
    return SeedComparison(differences.size, *interval, *signs)
