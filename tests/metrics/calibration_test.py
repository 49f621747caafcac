"""Calibration errors against brute force over the definition."""

import itertools

import numpy as np
import pytest

from s2d_tf import metrics


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
    probs = rng.dirichlet(np.full(10, 0.2), size=400)
    labels = rng.integers(0, 10, 400)
    # Confidences exactly on edges and at 1 are where implementations differ.
    probs[0], probs[1], probs[2] = np.eye(10)[3], np.r_[0.6, 0.4, np.zeros(8)], np.full(10, 0.1)
    assert metrics.expected_calibration_error(probs, labels, num_bins) == pytest.approx(
        brute_force_ece(probs, labels, num_bins), abs=1e-12
    )


def test_a_confidence_on_an_edge_belongs_to_the_lower_bin():
    # 0.6 = 9/15 falls into (8/15, 9/15] with 0.58, not with 0.65: their gaps cancel only there.
    probs, labels = predictions_with_confidence([0.6, 0.58, 0.65], [False, True, True])
    expected = (abs(0.6 + (0.58 - 1.0)) + (1.0 - 0.65)) / 3
    assert metrics.expected_calibration_error(probs, labels) == pytest.approx(expected, abs=1e-15)
    edges = np.linspace(0.0, 1.0, 16)[6:]
    probs, labels = predictions_with_confidence(edges, np.ones(10, bool))
    np.testing.assert_array_equal(
        metrics.reliability_curve(probs, labels).count, np.r_[np.zeros(5), np.ones(10)]
    )


@pytest.mark.parametrize("metric", ["expected_calibration_error", "adaptive_calibration_error"])
def test_degenerate_sets(metric):
    error = getattr(metrics, metric)
    labels = np.array([0, 1, 2, 0, 1])
    assert error(np.eye(3)[labels], labels) == 0.0
    assert error(np.eye(3)[(labels + 1) % 3], labels) == 1.0
    assert error([[0.75, 0.25]], [0]) == 0.25
    assert error([[0.75, 0.25]], [1]) == 0.75
    constant = np.full((4, 2), 0.5)
    assert error(constant, [0, 1, 0, 1]) == 0.0


def test_adaptive_bins_hold_equally_many():
    confidence = np.array([0.9, 0.95, 0.99, 0.4, 0.45, 0.5])
    correct = np.array([1, 1, 0, 0, 1, 0], dtype=bool)
    probs, labels = predictions_with_confidence(confidence, correct)
    expected = (abs(0.4 + 0.45 + 0.5 - 1.0) + abs(0.9 + 0.95 + 0.99 - 2.0)) / 6
    assert metrics.adaptive_calibration_error(probs, labels, num_bins=2) == pytest.approx(
        expected, abs=1e-15
    )
    # One bin: all that is left is the overall gap, whatever the binning.
    assert metrics.adaptive_calibration_error(probs, labels, num_bins=1) == pytest.approx(
        metrics.expected_calibration_error(probs, labels, num_bins=1), abs=1e-15
    )


def test_adaptive_error_with_ties_is_the_mean_over_their_shares():
    # Two bins of two; the tie at 0.8 straddles the cut and holds one right in two.
    probs, labels = predictions_with_confidence([0.5, 0.8, 0.8, 0.9], [True, True, False, True])
    expected = (abs(0.5 - 1.0 + 0.8 - 0.5) + abs(0.8 - 0.5 + 0.9 - 1.0)) / 4
    for order in ([0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1]):
        assert metrics.adaptive_calibration_error(
            probs[order], labels[order], num_bins=2
        ) == pytest.approx(expected, abs=1e-15)


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
