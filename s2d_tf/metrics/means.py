"""How sure a mean is."""

import numpy as np
from scipy import stats

LEVEL = 0.95


def mean_interval(values, level: float = LEVEL) -> tuple[float | None, float | None, float | None]:
    """Mean of independent values, and the ends of Student's interval for it.

    Of the differences of pairs it is the interval of the paired t-test.

    Args:
        values: of examples or of seeds.
        level: how often the interval holds the true mean.

    Returns:
        `(mean, low, high)`. The ends are `None` for a single value; all is `None` where a value is
        infinite or NaN.
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
