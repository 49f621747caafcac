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


def test_the_law_of_conformal_coverage_is_that_of_ranks():
    """The rank of the threshold among all scores, simulated."""
    random = np.random.default_rng(0)
    known, new, coverage = 40, 60, 0.8
    rank = int(np.ceil((known + 1) * coverage))
    scores = random.random([20_000, known + new])
    threshold = np.sort(scores[:, :known], axis=1)[:, rank - 1]
    observed = (scores[:, known:] <= threshold[:, None]).mean(axis=1)
    low, high = metrics.conformal_coverage_interval(known, new, coverage, level=0.9)
    assert 0.89 < np.mean((observed >= low) & (observed <= high)) < 0.94
    assert np.mean(observed < low) < 0.055
    assert np.mean(observed > high) < 0.055


@pytest.mark.parametrize("sets", [SETS.astype(float), SETS[0], SETS[:0]])
def test_anything_but_boolean_sets_is_an_error(sets):
    with pytest.raises(ValueError, match=r"sets: expected booleans \[examples, classes\]"):
        metrics.mean_set_size(sets)
