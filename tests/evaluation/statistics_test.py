"""Spread and paired comparisons over seeds, against scipy and closed forms."""

import numpy as np
import pytest
from scipy import stats

from s2d_tf.evaluation import statistics


def test_over_seeds_equals_scipy():
    a, b = np.array([0.5, 0.6, 0.55, 0.7, 0.4]), np.array([0.45, 0.5, 0.56, 0.6, 0.4])
    found = statistics.compare_over_seeds(a, b)
    oracle = stats.ttest_rel(a, b).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((oracle.low, oracle.high), abs=1e-12)
    assert found.mean_difference == pytest.approx(0.048, abs=1e-12)
    assert (found.positive, found.negative, found.num_pairs) == (3, 1, 5)


def test_one_seed_has_no_spread():
    found = statistics.compare_over_seeds([0.5], [0.4])
    assert (found.low, found.high) == (None, None)
    assert statistics.mean_and_two_std([0.25]) == (0.25, None)
    same = statistics.compare_over_seeds([1.0, 2.0], [1.0, 2.0])
    assert (same.low, same.high, same.positive, same.negative) == (0.0, 0.0, 0, 0)


def test_mean_and_two_std_by_hand():
    mean, two_std = statistics.mean_and_two_std([1.0, 2.0, 3.0, 4.0])
    assert mean == 2.5
    assert two_std == pytest.approx(2.0 * np.sqrt(5.0 / 3.0), abs=1e-15)
    # What the docstring says of five seeds.
    quantiles = stats.chi2.ppf([0.975, 0.025], 4)
    np.testing.assert_allclose(np.sqrt(4.0 / quantiles), [0.6, 2.87], atol=0.01)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: statistics.mean_and_two_std([]), "values: expected at least one"),
        (lambda: statistics.mean_and_two_std([np.nan]), "values: expected finite"),
        (
            lambda: statistics.compare_over_seeds([1.0], [1.0, 2.0]),
            "paired by seed, received 1 and 2",
        ),
    ],
)
def test_bad_input_is_rejected_in_one_line(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)
