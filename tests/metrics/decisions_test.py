"""Abstention and prediction sets: brute force, SciPy, and the identity with the AUROC of errors."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn import metrics as sklearn_metrics

from s2d_tf import metrics

cases = st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=1, max_size=30)


def brute_force_aurc(scores, errors):
    risks = []
    for own in scores:
        accepted = [e for s, e in zip(scores, errors, strict=True) if s <= own]
        risks.append(sum(accepted) / len(accepted))
    return sum(risks) / len(risks)


@settings(max_examples=100, derandomize=True, deadline=None)
@given(cases)
def test_aurc_equals_brute_force_and_augrc_follows_from_the_auroc_of_errors(case):
    scores, errors = (np.array(column, float) for column in zip(*case, strict=True))
    found = metrics.area_under_risk_coverage(scores, errors)
    assert found == pytest.approx(brute_force_aurc(scores, errors), abs=1e-12)
    risk = errors.mean()
    auroc = sklearn_metrics.roc_auc_score(errors, scores) if 0 < risk < 1 else 0.5
    expected = (1 - auroc) * risk * (1 - risk) + risk**2 / 2
    found = metrics.area_under_generalized_risk_coverage(scores, errors)
    assert found == pytest.approx(expected, abs=1e-12)


def test_rejection_inside_a_tie_is_the_expectation_over_orders():
    scores, errors = np.array([1.0, 2.0, 2.0, 2.0, 3.0]), np.array([0, 1, 0, 0, 1])
    # Rejecting 2 of 5 takes the last and one of the three that tie.
    kept = [errors[[0, *pair]].mean() for pair in itertools.combinations((1, 2, 3), 2)]
    assert metrics.risk_after_rejection(scores, errors, 0.4) == pytest.approx(
        np.mean(kept), abs=1e-15
    )
    several = metrics.risk_after_rejection(scores, errors, [0.0, 0.2, 0.8])
    np.testing.assert_allclose(several, [0.4, 0.25, 0.0], atol=1e-15)


@pytest.mark.parametrize(
    ("scores", "errors", "message"),
    [
        ([], [], "scores: expected at least one example"),
        ([np.inf], [0], "scores: expected finite numbers"),
        ([1.0], [0, 1], r"errors: expected the shape \(1,\)"),
        ([1.0], [0.5], "errors: expected booleans or 0/1.*received 0.5"),
        ([1.0], [np.nan], "errors: expected booleans or 0/1"),
    ],
)
def test_bad_input_is_refused(scores, errors, message):
    with pytest.raises(ValueError, match=message):
        metrics.area_under_risk_coverage(scores, errors)


def test_bad_fractions_and_sets_are_refused():
    for rejected in (1.0, -0.1, np.nan, [0.5, 1.0]):
        with pytest.raises(ValueError, match="rejected: expected fractions"):
            metrics.risk_after_rejection([1.0], [0], rejected)
    for sets in (SETS.astype(float), SETS[0], SETS[:0]):
        with pytest.raises(ValueError, match=r"sets: expected booleans \[examples, classes\]"):
            metrics.mean_set_size(sets)


SETS = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 1], [1, 1, 1], [0, 1, 1], [0, 0, 0]], bool)
LABELS = np.array([0, 2, 2, 1, 1, 0])


def test_coverage_and_size_are_counted():
    assert metrics.set_coverage(SETS, LABELS) == pytest.approx(4 / 6)
    assert metrics.mean_set_size(SETS) == pytest.approx(9 / 6)
