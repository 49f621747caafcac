"""Detection metrics against brute force over all pairs and thresholds, and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from sklearn import metrics as sklearn_metrics

from s2d_tf import metrics


def brute_force_auroc(id_scores, ood_scores):
    wins = [(o > i) + 0.5 * (o == i) for o in ood_scores for i in id_scores]
    return sum(wins) / len(wins)


def brute_force_aupr(id_scores, ood_scores):
    area, last_recall = 0.0, 0.0
    for threshold in sorted({*id_scores, *ood_scores}, reverse=True):
        found = sum(o >= threshold for o in ood_scores)
        flagged = found + sum(i >= threshold for i in id_scores)
        recall = found / len(ood_scores)
        area += (recall - last_recall) * found / flagged
        last_recall = recall
    return area


def brute_force_fpr(id_scores, ood_scores):
    rates = []
    for threshold in {*id_scores, *ood_scores}:
        if 100 * sum(o >= threshold for o in ood_scores) >= 95 * len(ood_scores):
            rates.append(sum(i >= threshold for i in id_scores) / len(id_scores))
    return min(rates)


PAIRS = [
    (metrics.auroc, brute_force_auroc),
    (metrics.aupr, brute_force_aupr),
    (metrics.fpr_at_95_recall, brute_force_fpr),
]
# A coarse grid makes ties within and between the sets common.
tied_scores = hnp.arrays(
    np.float64, st.integers(1, 25), elements=st.sampled_from(np.linspace(-1.0, 1.0, 9))
)
any_scores = hnp.arrays(
    np.float64, st.integers(1, 25), elements=st.floats(-1e6, 1e6, allow_subnormal=False)
)


@pytest.mark.parametrize(("metric", "oracle"), PAIRS)
@settings(max_examples=60, derandomize=True, deadline=None)
@given(data=st.data())
def test_equals_brute_force(metric, oracle, data):
    scores = data.draw(st.sampled_from([tied_scores, any_scores]))
    id_scores, ood_scores = data.draw(scores), data.draw(scores)
    value = metric(id_scores, ood_scores)
    assert value == pytest.approx(oracle(list(id_scores), list(ood_scores)), abs=1e-12)


def test_the_curve_contains_the_area():
    rng = np.random.default_rng(4)
    id_scores, ood_scores = np.round(rng.normal(size=80), 1), np.round(rng.normal(1, size=60), 1)
    false_positive_rate, recall, _ = metrics.roc_curve(id_scores, ood_scores)
    assert (false_positive_rate[0], recall[0]) == (0.0, 0.0)
    assert (false_positive_rate[-1], recall[-1]) == (1.0, 1.0)
    assert np.trapezoid(recall, false_positive_rate) == pytest.approx(
        metrics.auroc(id_scores, ood_scores), abs=1e-12
    )


@pytest.mark.parametrize(("metric", "_"), PAIRS)
@pytest.mark.parametrize(
    ("id_scores", "ood_scores", "message"),
    [
        ([0.0, np.inf], [1.0], "id_scores: expected finite numbers, received inf at index 1"),
        ([0.0], [-np.inf], "ood_scores: expected finite numbers"),
        ([0.0], [np.nan], "ood_scores: expected finite numbers, received nan at index 0"),
        ([], [1.0], "id_scores: expected at least one example"),
        ([1.0], [], "ood_scores: expected at least one example"),
        ([[1.0]], [1.0], "id_scores: expected a vector"),
    ],
)
def test_bad_scores_are_refused_in_one_line(metric, _, id_scores, ood_scores, message):
    with pytest.raises(ValueError, match=message) as refusal:
        metric(id_scores, ood_scores)
    assert "\n" not in str(refusal.value)


def test_plain_functions_need_no_tensorflow(run_python):
    code = (
        "import sys; from s2d_tf import metrics; metrics.auroc([0.0], [1.0]);"
        "sys.exit('tensorflow' in sys.modules or 'keras' in sys.modules)"
    )
    assert run_python("-c", code).returncode == 0


def weighted_fpr(targets, scores, sample_weight):
    drawn = np.repeat(np.arange(len(scores)), sample_weight)
    return brute_force_fpr(scores[drawn][targets[drawn] == 0], scores[drawn][targets[drawn] == 1])


def test_resamples_are_weighted_examples():
    """All at once, against scikit-learn one by one; a side without examples has no AUROC."""
    rng = np.random.default_rng(6)
    id_scores, ood_scores = np.round(rng.normal(size=40), 1), np.round(rng.normal(1, size=30), 1)
    counts = rng.integers(0, 3, (5, 40)), rng.integers(0, 3, (5, 30))
    ranking = metrics.Ranking(id_scores, ood_scores)
    targets, scores = np.repeat([0, 1], [40, 30]), np.r_[id_scores, ood_scores]
    for found, oracle in (
        (ranking.auroc(*counts), sklearn_metrics.roc_auc_score),
        (ranking.aupr(*counts), sklearn_metrics.average_precision_score),
        (ranking.fpr_at_95_recall(*counts), weighted_fpr),
    ):
        expected = [oracle(targets, scores, sample_weight=row) for row in np.hstack(counts)]
        np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.isnan(ranking.auroc(np.zeros((1, 40)), counts[1][:1])).all()
