"""Accuracy, likelihood and Brier score against scikit-learn, mpmath and hand-computed cases."""

import mpmath
import numpy as np
import pytest
from sklearn import metrics as sklearn_metrics

from s2d_tf import metrics


def random_predictions(num_examples=500, num_classes=7, scale=3.0, seed=0):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(num_examples, num_classes))
    probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probs /= probs.sum(axis=-1, keepdims=True)
    return logits, probs, rng.integers(0, num_classes, num_examples)


def test_hand_computed():
    probs = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1]]
    labels = [0, 2]
    assert metrics.accuracy(probs, labels) == 0.5
    expected = (np.log(2.0) + np.log(10.0)) / 2
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(expected, rel=1e-15)
    expected = (0.25 + 2 * 0.0625 + 0.01 + 0.64 + 0.81) / 2
    assert metrics.brier_score(probs, labels) == pytest.approx(expected, rel=1e-15)


def test_equals_scikit_learn():
    _, probs, labels = random_predictions()
    assert metrics.accuracy(probs, labels) == pytest.approx(
        sklearn_metrics.accuracy_score(labels, probs.argmax(axis=-1)), abs=1e-12
    )
    classes = np.arange(7)
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(
        sklearn_metrics.log_loss(labels, probs, labels=classes), abs=1e-12
    )
    one_hot = labels[:, np.newaxis] == classes
    by_class = [sklearn_metrics.mean_squared_error(one_hot[:, c], probs[:, c]) for c in classes]
    assert metrics.brier_score(probs, labels) == pytest.approx(sum(by_class), abs=1e-12)


def test_log_probs_agree_with_probs_and_do_not_saturate():
    logits, probs, labels = random_predictions()
    assert metrics.negative_log_likelihood_from_log_probs(logits, labels) == pytest.approx(
        metrics.negative_log_likelihood(probs, labels), abs=1e-12
    )
    extreme = np.array([[5000.0, -5000.0, 0.0], [1e-3, 0.0, -1e-3]])
    with mpmath.workdps(50):
        rows = [
            mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(z)) for z in row)) - mpmath.mpf(row[label])
            for row, label in zip(extreme, (1, 2), strict=True)
        ]
        expected = float(mpmath.fsum(rows) / 2)
    assert metrics.negative_log_likelihood_from_log_probs(extreme, [1, 2]) == pytest.approx(
        expected, rel=1e-14
    )


@pytest.mark.parametrize(("right", "accuracy", "nll", "brier"), [(1, 1, 0, 0), (0, 0, np.inf, 2)])
def test_certain_predictions_all_right_and_all_wrong(right, accuracy, nll, brier):
    labels = np.array([0, 1, 2, 0])
    probs = np.eye(3)[labels if right else (labels + 1) % 3]
    assert metrics.accuracy(probs, labels) == accuracy
    assert metrics.negative_log_likelihood(probs, labels) == nll
    assert metrics.brier_score(probs, labels) == brier


def test_one_example_and_other_dtypes():
    probs = np.array([[0.25, 0.75]], dtype=np.float32)
    assert metrics.accuracy(probs, np.array([1], dtype=np.uint8)) == 1.0
    assert metrics.brier_score(probs, [1]) == 0.125


SCORES = [
    metrics.accuracy,
    metrics.negative_log_likelihood,
    metrics.brier_score,
    metrics.expected_calibration_error,
    metrics.adaptive_calibration_error,
    metrics.reliability_curve,
]


@pytest.mark.parametrize("metric", SCORES)
@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        ([[0.5, np.nan]], [0], r"probs: expected finite numbers, received nan at index \(0, 1\)"),
        ([[np.inf, 0.5]], [0], "probs: expected finite numbers"),
        ([[0.7, 0.7]], [0], r"received 1\.4 in row 0"),
        ([[1.5, -0.5]], [0], "probs: expected no negative values"),
        ([0.5, 0.5], [0], r"received \(2,\)"),
        ([[[0.5, 0.5]]], [0], r"received \(1, 1, 2\)"),
        (np.ones((3, 1)), [0, 0, 0], "at least 2 classes"),
        (np.ones((0, 3)), np.zeros(0, int), "probs: expected at least one example"),
        ([[0.5, 0.5]], [2], r"labels: expected classes in \[0, 2\), received 2 at index 0"),
        ([[0.5, 0.5]], [-1], "received -1 at index 0"),
        ([[0.5, 0.5]], [0, 1], r"labels: expected the shape \(1,\)"),
        ([[0.5, 0.5]], [[0]], r"received \(1, 1\)"),
        ([[0.5, 0.5]], [0.0], "integer classes, received dtype float64"),
    ],
)
def test_bad_input_is_refused_in_one_line(metric, probs, labels, message):
    with pytest.raises(ValueError, match=message) as refusal:
        metric(probs, labels)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("metric", SCORES[:5])
def test_order_of_examples_does_not_matter(metric):
    _, probs, labels = random_predictions()
    order = np.random.default_rng(1).permutation(labels.size)
    assert metric(probs[order], labels[order]) == pytest.approx(metric(probs, labels), abs=1e-13)
