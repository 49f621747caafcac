"""SCOD against brute force over a mixture in which examples are repeated."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s2d_tf import metrics

known = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=12)
unknown = st.lists(st.integers(0, 5), min_size=1, max_size=12)


def brute_force(id_scores, id_errors, ood_scores, copies):
    """AURC of a set in which each known example stands `copies[0]` times, each other `copies[1]`"""
    scores = np.append(np.repeat(id_scores, copies[0]), np.repeat(ood_scores, copies[1]))
    bad = np.append(
        np.repeat(id_errors, copies[0]), np.ones(len(ood_scores) * copies[1], dtype=bool)
    )
    return np.mean([bad[scores <= own].mean() for own in scores])


@settings(max_examples=60, derandomize=True, deadline=None)
@given(known, unknown)
def test_equals_brute_force_with_half_of_each(case, ood_scores):
    id_scores, id_errors = map(np.array, zip(*case, strict=True))
    found = metrics.area_under_scod_risk_coverage(id_scores, id_errors, ood_scores)
    copies = len(ood_scores), len(id_scores)  # As many of one kind as of the other.
    assert found == pytest.approx(brute_force(id_scores, id_errors, ood_scores, copies), abs=1e-12)


@pytest.mark.parametrize(("share", "copies"), [(0.25, (3, 1)), (0.75, (1, 3)), (0.1, (9, 1))])
def test_the_share_is_that_of_the_mixture(share, copies):
    rng = np.random.default_rng(0)
    id_scores, ood_scores = rng.normal(size=40), rng.normal(1.0, size=40)
    id_errors = rng.random(40) < 0.3
    found = metrics.area_under_scod_risk_coverage(id_scores, id_errors, ood_scores, share)
    assert found == pytest.approx(brute_force(id_scores, id_errors, ood_scores, copies), abs=1e-12)


def test_without_ood_it_would_be_the_aurc():
    """The OOD examples come last by far: up to the known share the curve is that of the known."""
    rng = np.random.default_rng(1)
    scores, errors = rng.normal(size=50), rng.random(50) < 0.4
    mixed = metrics.scod_risk_coverage_curve(scores, errors, [99.0])
    plain = metrics.risk_coverage_curve(scores, errors)
    np.testing.assert_allclose(mixed.selective_risk[:-1], plain.selective_risk)
    np.testing.assert_allclose(mixed.coverage[:-1], plain.coverage / 2)
    assert mixed.coverage[-1] == pytest.approx(1.0)
    assert mixed.selective_risk[-1] == pytest.approx(0.5 + errors.mean() / 2)


def test_a_score_must_find_both_kinds_of_bad_answers():
    errors = np.repeat([False, True], 50)
    both, only_ood = np.repeat([0.0, 1.0], 50), np.zeros(100)
    ood = np.full(100, 1.0)
    area = metrics.area_under_scod_risk_coverage
    blind = area(np.zeros(100), errors, np.zeros(100))
    assert blind == pytest.approx(0.75)
    assert area(both, errors, ood) < area(only_ood, errors, ood) < blind


@pytest.mark.parametrize("share", [0.0, 1.0, -1, 2, float("nan")])
def test_a_share_outside(share):
    with pytest.raises(ValueError, match=r"ood_share: expected a share in \(0, 1\), received"):
        metrics.area_under_scod_risk_coverage([0.0], [0], [1.0], share)


def test_errors_of_another_length():
    with pytest.raises(ValueError, match="errors: expected the shape"):
        metrics.area_under_scod_risk_coverage([0.0, 1.0], [0], [1.0])
