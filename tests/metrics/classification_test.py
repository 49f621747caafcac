"""Accuracy, proper scores, calibration, temperatures: brute force, scikit-learn and mpmath."""

import itertools

import mpmath
import numpy as np
import pytest
from scipy.special import log_softmax
from sklearn import metrics as sklearn_metrics

from s2d_tf import metrics


def random_predictions(num_examples=500, num_classes=7, scale=3.0, seed=0):
    rng = np.random.default_rng(seed)
    logits = scale * rng.normal(size=(num_examples, num_classes))
    probs = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probs /= probs.sum(axis=-1, keepdims=True)
    return logits, probs, rng.integers(0, num_classes, num_examples)


def test_equals_scikit_learn():
    _, probs, labels = random_predictions()
    expected = sklearn_metrics.accuracy_score(labels, probs.argmax(axis=-1))
    assert metrics.accuracy(probs, labels) == pytest.approx(expected, abs=1e-12)
    classes = np.arange(7)
    expected = sklearn_metrics.log_loss(labels, probs, labels=classes)
    assert metrics.negative_log_likelihood(probs, labels) == pytest.approx(expected, abs=1e-12)
    one_hot = labels[:, np.newaxis] == classes
    by_class = [sklearn_metrics.mean_squared_error(one_hot[:, c], probs[:, c]) for c in classes]
    assert metrics.brier_score(probs, labels) == pytest.approx(sum(by_class), abs=1e-12)


def test_log_probs_agree_with_probs_and_do_not_saturate():
    logits, probs, labels = random_predictions()
    found = metrics.negative_log_likelihood_from_log_probs(logits, labels)
    expected = metrics.negative_log_likelihood(probs, labels)
    assert found == pytest.approx(expected, abs=1e-12)
    extreme = np.array([[5000.0, -5000.0, 0.0], [1e-3, 0.0, -1e-3]])
    with mpmath.workdps(50):
        rows = [
            mpmath.log(mpmath.fsum(mpmath.exp(mpmath.mpf(z)) for z in row)) - mpmath.mpf(row[label])
            for row, label in zip(extreme, (1, 2), strict=True)
        ]
        expected = float(mpmath.fsum(rows) / 2)
    found = metrics.negative_log_likelihood_from_log_probs(extreme, [1, 2])
    assert found == pytest.approx(expected, rel=1e-14)


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


def brute_force_ece(probs, labels, num_bins):
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    total = 0.0
    for low, high in itertools.pairwise(edges):
        members = [
            (max(row), float(np.argmax(row) == label))
            for row, label in zip(probs, labels, strict=True)
            if low < max(row) <= high
        ]
        if members:
            confidence, correct = np.mean(members, axis=0)
            total += len(members) / len(labels) * abs(confidence - correct)
    return total


def predictions_with_confidence(confidence, correct, num_classes=3):
    confidence = np.asarray(confidence, dtype=np.float64)
    rest = (1.0 - confidence) / (num_classes - 1)
    probs = np.repeat(rest[:, np.newaxis], num_classes, axis=1)
    probs[:, 0] = confidence
    return probs, np.where(correct, 0, 1)


@pytest.mark.parametrize("num_bins", [1, 2, 10, 15, 100])
def test_ece_equals_brute_force(num_bins):
    rng = np.random.default_rng(0)
    probs, labels = rng.dirichlet(np.full(10, 0.2), size=400), rng.integers(0, 10, 400)
    # Confidences exactly on edges and at 1 are where implementations differ.
    edges = np.linspace(0.0, 1.0, num_bins + 1)
    edges = edges[edges > 0.5]
    on_edges = predictions_with_confidence(edges, rng.random(edges.size) < 0.5, num_classes=10)
    probs, labels = np.concatenate([probs, on_edges[0]]), np.r_[labels, on_edges[1]]
    found = metrics.expected_calibration_error(probs, labels, num_bins)
    assert found == pytest.approx(brute_force_ece(probs, labels, num_bins), abs=1e-12)


@pytest.mark.parametrize(
    ("confidence", "correct", "bins"),
    [
        ([0.9, 0.95, 0.99, 0.4, 0.45, 0.5], [1, 1, 0, 0, 1, 0], (0.35, 0.84)),
        # The tie at 0.8 is in both bins and holds one right in two.
        ([0.5, 0.8, 0.8, 0.9], [1, 1, 0, 1], (0.5 - 1.0 + 0.8 - 0.5, 0.8 - 0.5 + 0.9 - 1.0)),
    ],
)
def test_adaptive_bins_hold_equally_many_and_share_ties(confidence, correct, bins):
    probs, labels = predictions_with_confidence(confidence, np.array(correct, bool))
    expected = sum(map(abs, bins)) / len(labels)
    for order in (np.arange(len(labels)), np.arange(len(labels))[::-1]):
        found = metrics.adaptive_calibration_error(probs[order], labels[order], num_bins=2)
        assert found == pytest.approx(expected, abs=1e-15)
    # One bin: all that is left is the overall gap, whatever the binning.
    overall = metrics.expected_calibration_error(probs, labels, num_bins=1)
    found = metrics.adaptive_calibration_error(probs, labels, num_bins=1)
    assert found == pytest.approx(overall, abs=1e-15)


def test_reliability_curve_adds_up_to_the_error():
    rng = np.random.default_rng(2)
    probs = rng.dirichlet(np.full(5, 0.5), size=300)
    labels = rng.integers(0, 5, 300)
    curve = metrics.reliability_curve(probs, labels, num_bins=15)
    assert curve.count.sum() == 300
    assert np.isnan(curve.confidence[curve.count == 0]).all()
    filled = curve.count > 0
    assert np.all(curve.confidence[filled] > curve.edges[:-1][filled])
    assert np.all(curve.confidence[filled] <= curve.edges[1:][filled] + 1e-15)
    gaps = np.abs(curve.confidence - curve.accuracy)[filled] * curve.count[filled] / 300
    assert gaps.sum() == pytest.approx(metrics.expected_calibration_error(probs, labels), abs=1e-12)


@pytest.mark.parametrize("num_bins", [0, -1, 2.5, True, "15"])
def test_bad_number_of_bins(num_bins):
    with pytest.raises(ValueError, match="num_bins: expected an integer of at least 1"):
        metrics.expected_calibration_error([[0.5, 0.5]], [0], num_bins=num_bins)


def overconfident(true_temperature, num_examples=400, num_classes=6, seed=0):
    """Labels drawn from the softmax of logits that are then sharpened by `true_temperature`."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(num_examples, num_classes))
    probs = np.exp(log_softmax(logits, axis=-1))
    labels = np.array([rng.choice(num_classes, p=row) for row in probs])
    return true_temperature * logits, labels


@pytest.mark.parametrize("true_temperature", [0.1, 0.7, 1.0, 3.0, 50.0])
def test_the_slope_vanishes_in_high_precision(true_temperature):
    logits, labels = overconfident(true_temperature, num_examples=60)
    temperature = metrics.fit_temperature(logits, labels)
    with mpmath.workdps(40):

        def slope(inverse):
            total = mpmath.mpf(0)
            for row, label in zip(logits, labels, strict=True):
                row = [mpmath.mpf(z) for z in row]
                weights = [mpmath.exp(inverse * z) for z in row]
                mean = mpmath.fdot(weights, row) / mpmath.fsum(weights)
                total += mean - row[label]
            return total

        exact = 1 / mpmath.findroot(slope, 1 / mpmath.mpf(temperature))
        assert abs(temperature / exact - 1) < 1e-12
    assert temperature == pytest.approx(true_temperature, rel=0.4)


def test_degenerate_temperatures():
    logits = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    assert metrics.fit_temperature(logits, [0, 0, 1]) == 1e-3  # All right: the sharper the better.
    assert metrics.fit_temperature(logits, [1, 1, 0]) == 1e3  # All wrong: the flatter the better.
    assert metrics.fit_temperature(np.full((3, 4), 2.5), [0, 1, 2]) == 1.0
    assert metrics.fit_temperature([[2.0, 0.0]], [0]) == 1e-3


def test_bad_temperatures_are_rejected():
    with pytest.raises(ValueError, match="log_probs: expected finite numbers, received -inf"):
        metrics.fit_temperature([[0.0, -np.inf]], [0])
    with pytest.raises(ValueError, match=r"labels: expected classes in \[0, 2\)"):
        metrics.fit_temperature([[0.0, 1.0]], [2])
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature: expected a positive number"):
            metrics.scale_log_probs([[0.0, 1.0]], temperature)


def test_calibration_gaps_of_resamples_are_those_of_repeated_examples():
    rng = np.random.default_rng(7)
    confidence, correct = rng.uniform(0.2, 1.0, 60), rng.random(60) < 0.7
    counts = np.array([np.bincount(rng.integers(0, 60, 60), minlength=60) for _ in range(4)])
    found = metrics.calibration_gaps(confidence, correct, counts=counts)
    for row, own in zip(counts, found, strict=True):
        drawn = np.repeat(np.arange(60), row)
        expected = metrics.calibration_gaps(confidence[drawn], correct[drawn])
        np.testing.assert_allclose(own, expected, atol=1e-12)
