"""How sure a mean is."""

from __future__ import annotations

import numpy as np
from scipy import stats

from s2d_tf._types import ArrayLike

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
