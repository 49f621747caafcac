"""Top-label calibration: does a confidence of 80% mean right four times in five?"""

from typing import NamedTuple

import numpy as np

from s2d_tf.metrics import checks


class ReliabilityCurve(NamedTuple):
    """What a reliability diagram draws, one entry per bin; empty bins hold NaN and count 0."""

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray


def expected_calibration_error(probs, labels, num_bins=15):
    """Gap between confidence and accuracy, averaged over equal-width bins by their counts.

    Bins are `(lo, hi]`, so a confidence on an edge belongs to the lower bin. A fraction, not per
    cent. Even a perfectly calibrated model shows a positive value on a finite set, the
    larger the fewer its examples.
    """
    confidence, correct, num_bins = _checked(probs, labels, num_bins)
    gaps = np.bincount(
        bin_indices(confidence, num_bins), weights=confidence - correct, minlength=num_bins
    )
    return float(np.abs(gaps).sum() / confidence.size)


def adaptive_calibration_error(probs, labels, num_bins=15):
    """Top-label calibration error over bins that hold equally many examples.

    The examples are sorted by confidence and cut into `num_bins` parts whose sizes differ by at
    most one (fewer parts for fewer examples). Equal confidences share their mean correctness, so
    the answer does not depend on the order of the examples.
    """
    confidence, correct, num_bins = _checked(probs, labels, num_bins)
    values, group, count = np.unique(confidence, return_inverse=True, return_counts=True)
    shared = np.bincount(group, weights=correct) / count
    gaps = np.repeat(values - shared, count)
    parts = np.array_split(gaps, min(num_bins, gaps.size))
    return float(sum(abs(part.sum()) for part in parts) / gaps.size)


def reliability_curve(probs, labels, num_bins=15):
    """Mean confidence, accuracy and count of each equal-width bin `(lo, hi]`."""
    confidence, correct, num_bins = _checked(probs, labels, num_bins)
    index = bin_indices(confidence, num_bins)
    count = np.bincount(index, minlength=num_bins)
    total_confidence = np.bincount(index, weights=confidence, minlength=num_bins)
    total_correct = np.bincount(index, weights=correct, minlength=num_bins)
    with np.errstate(invalid="ignore"):
        return ReliabilityCurve(
            edges=np.linspace(0.0, 1.0, num_bins + 1),
            confidence=total_confidence / count,
            accuracy=total_correct / count,
            count=count,
        )


def bin_indices(confidence, num_bins):
    """Index of the bin `(k / num_bins, (k + 1) / num_bins]` of each; 0 is in the first."""
    # Compared with the edges: ceil(confidence * num_bins) rounds some edges into the wrong bin.
    inner_edges = np.linspace(0.0, 1.0, num_bins + 1)[1:-1]
    return np.searchsorted(inner_edges, confidence, side="left")


def _checked(probs, labels, num_bins):
    """The confidence of each top label, whether it is right (0 or 1), and the number of bins."""
    probs, labels = checks.as_labeled(probs, labels)
    predicted = probs.argmax(axis=-1)
    confidence, correct = probs[np.arange(labels.size), predicted], predicted == labels
    return confidence, correct.astype(np.float64), checks.as_positive_int(num_bins, "num_bins")
