"""Metrics of prediction sets, against SciPy and counts by hand."""

import numpy as np
import pytest
from scipy import stats

from s2d_tf import metrics

SETS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1], [0, 0, 0]], bool)
LABELS = np.array([0, 2, 2, 1, 1, 0])


def test_coverage_and_size_are_counted():
    assert metrics.set_coverage(SETS, LABELS) == pytest.approx(4 / 6)
    assert metrics.mean_set_size(SETS) == pytest.approx(9 / 6)
    by_size = metrics.size_stratified_coverage(SETS, LABELS)
    assert list(by_size.size) == [0, 1, 2, 3]
    assert list(by_size.count) == [1, 2, 2, 1]
    assert list(by_size.coverage) == [0.0, 1.0, 0.5, 1.0]


@pytest.mark.parametrize("hits", [0, 1, 34, 40])
def test_the_interval_is_that_of_clopper_and_pearson(hits):
    sets = np.zeros([40, 3], bool)
    sets[:hits, 1] = True
    expected = stats.binomtest(hits, 40).proportion_ci(0.9, method="exact")
    found = metrics.set_coverage_interval(sets, np.ones(40, int), level=0.9)
    np.testing.assert_allclose(found, (expected.low, expected.high), atol=1e-12)


@pytest.mark.parametrize("sets", [SETS.astype(float), SETS[0], SETS[:0]])
def test_anything_but_boolean_sets_is_an_error(sets):
    with pytest.raises(ValueError, match=r"sets: expected booleans \[examples, classes\]"):
        metrics.mean_set_size(sets)
