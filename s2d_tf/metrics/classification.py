"""Accuracy, proper scores and calibration of class probabilities.

Calibration asks whether a confidence of 80% means right four times in five. Temperature scaling,
one number fitted on held-out examples, softens predictions.
"""

from __future__ import annotations

from numbers import Real
from typing import NamedTuple

import numpy as np

from s2d_tf._types import Array, ArrayLike
from s2d_tf.metrics import checks

NUM_BINS = 15

# Where the best temperature does not exist (every label is the largest logit, or predictions are
# worse than chance) the answer is the end of this range.
MIN_TEMPERATURE = 1e-3
MAX_TEMPERATURE = 1e3


class ReliabilityCurve(NamedTuple):
    """What a reliability diagram draws, one entry per bin; empty bins hold NaN and count 0.

    Example:

    >>> curve = metrics.reliability_curve([[0.9, 0.1], [0.7, 0.3]], [0, 1], num_bins=2)
    >>> curve.count.tolist(), float(curve.accuracy[1])
    ([0, 2], 0.5)
    """

    edges: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    count: np.ndarray  # type: ignore[assignment]  # also a method of tuples


def accuracy(probs: ArrayLike, labels: ArrayLike) -> float:
    """Fraction of examples whose most probable class is the label (the first class of a tie).

    Example:

    >>> metrics.accuracy([[0.9, 0.1], [0.3, 0.7]], [0, 0])
    0.5
    """
    probs, labels = checks.as_labeled(probs, labels)
    return float(np.mean(probs.argmax(axis=-1) == labels))


def negative_log_likelihood(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-probability of the label, in nats.

    It is infinite where a label has probability 0, as float32 probabilities of confident networks
    can have: then `negative_log_likelihood_from_log_probs` gives the true value.

    Example:

    >>> round(metrics.negative_log_likelihood([[0.5, 0.5], [0.5, 0.5]], [0, 1]), 4)
    0.6931
    """
    probs, labels = checks.as_labeled(probs, labels)
    with np.errstate(divide="ignore"):
        return float(-np.mean(np.log(probs[np.arange(labels.size), labels])))


def negative_log_likelihood_from_log_probs(log_probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean negative log-probability of the label, in nats, from logits or log-probabilities.

    The rows are normalized inside, so log-concentrations of a Dirichlet are right too: the mean of
    the Dirichlet is their softmax.

    Example:

    >>> metrics.negative_log_likelihood_from_log_probs([[0.0, 1000.0]], [0])
    1000.0
    """
    log_probs = scale_log_probs(log_probs, 1.0)
    labels = checks.as_labels(labels, *log_probs.shape)
    return float(-np.mean(log_probs[np.arange(labels.size), labels]))


def brier_score(probs: ArrayLike, labels: ArrayLike) -> float:
    """Mean squared error summed over the classes: 0 is perfect, 2 the worst.

    Example:

    >>> metrics.brier_score([[0.5, 0.5], [1.0, 0.0]], [0, 0])
    0.25
    """
    probs, labels = checks.as_labeled(probs, labels)
    residuals = probs.copy()
    residuals[np.arange(labels.size), labels] -= 1.0
    return float(np.mean(np.sum(residuals**2, axis=-1)))


def expected_calibration_error(
    probs: ArrayLike, labels: ArrayLike, num_bins: int = NUM_BINS
) -> float:
    """Gap between confidence and accuracy, averaged over equal-width bins by their counts.

    Bins are `(lo, hi]`, so a confidence on an edge belongs to the lower bin. A fraction, not
    percent. Even a perfectly calibrated model shows a positive value on a finite set, the
    larger the fewer its examples.

    Example:

    >>> round(metrics.expected_calibration_error([[0.9, 0.1], [0.7, 0.3]], [0, 0]), 3)
    0.2
    """
    confidence, correct, num_bins = _checked(probs, labels, num_bins)
    return float(np.abs(calibration_gaps(confidence, correct, num_bins)).sum())


def calibration_gaps(
    confidence: Array, correct: Array, num_bins: int = NUM_BINS, counts: Array | None = None
) -> Array:
    """Confidence minus accuracy in each bin, times the share of the examples that are in it.

    The sum of the absolute gaps is the expected calibration error. Arrays are taken as they are.

    Args:
        confidence: of the predicted classes, `[examples]`.
        correct: whether these are right, `[examples]`.
        num_bins: number of equal-width bins.
        counts: how often each example was drawn, `[resamples, examples]`; once each by default.

    Returns:
        `[bins]`, or `[resamples, bins]`.

    Example:

    >>> metrics.calibration_gaps(np.array([0.9, 0.7]), np.array([1, 1]), num_bins=2).round(3)
    array([ 0. , -0.2])
    """
    counts = np.ones(confidence.size) if counts is None else counts
    gaps, index = confidence - correct, _bin_indices(confidence, num_bins)
    sums = [counts[..., index == i] @ gaps[index == i] for i in range(num_bins)]
    return np.stack(sums, axis=-1) / confidence.size


def adaptive_calibration_error(
    probs: ArrayLike, labels: ArrayLike, num_bins: int = NUM_BINS
) -> float:
    """Top-label calibration error over bins that hold equally many examples.

    The examples are sorted by confidence and cut into `num_bins` parts whose sizes differ by at
    most one (fewer parts for fewer examples). Equal confidences share their mean correctness, so
    the answer does not depend on the order of the examples.

    Example:

    >>> round(metrics.adaptive_calibration_error([[0.9, 0.1], [0.7, 0.3]], [0, 0], num_bins=2), 3)
    0.2
    """
    confidence, correct, num_bins = _checked(probs, labels, num_bins)
    values, group, count = np.unique(confidence, return_inverse=True, return_counts=True)
    shared = np.bincount(group, weights=correct) / count
    gaps = np.repeat(values - shared, count)
    parts = np.array_split(gaps, min(num_bins, gaps.size))
    return float(sum(abs(part.sum()) for part in parts) / gaps.size)


def reliability_curve(
    probs: ArrayLike, labels: ArrayLike, num_bins: int = NUM_BINS
) -> ReliabilityCurve:
    """Mean confidence, accuracy and count of each equal-width bin `(lo, hi]`.

    Example:

    >>> curve = metrics.reliability_curve([[0.9, 0.1], [0.7, 0.3]], [0, 1], num_bins=2)
    >>> round(float(curve.confidence[1]), 3), float(curve.accuracy[1])
    (0.8, 0.5)
    """
    confidence, correct, num_bins = _checked(probs, labels, num_bins)
    index = _bin_indices(confidence, num_bins)
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


def fit_temperature(log_probs: ArrayLike, labels: ArrayLike) -> float:
    """The temperature that minimizes the negative log-likelihood of `softmax(log_probs / T)`.

    The objective is convex in `1 / T`, so the root of its slope is the minimum. A model with many
    members is scaled once, on the log of its mean prediction: then one number serves every kind of
    model, the scaled probabilities keep the model's ranking of classes, and knowledge uncertainty
    is untouched.

    Args:
        log_probs: `[examples, classes]` logits or log-probabilities; for members the log of their
            mean probability.
        labels: `[examples]` integer classes.

    Returns:
        The temperature, in `[MIN_TEMPERATURE, MAX_TEMPERATURE]`. It is 1 where all logits of each
        example are equal, since then no temperature changes anything.

    Example:

    >>> logits, labels = [[6.0, 0.0], [6.0, 0.0], [6.0, 0.0]], [0, 0, 1]  # overconfident
    >>> round(metrics.fit_temperature(logits, labels), 2)
    8.66
    """
    from scipy import optimize  # Here: predicting with a loaded model needs no SciPy.

    log_probs = checks.as_matrix(log_probs, "log_probs")
    labels = checks.as_labels(labels, *log_probs.shape)
    # Relative to the label: the slope is then a mean of plain expectations, without cancellation.
    margins = log_probs - log_probs[np.arange(labels.size), labels][:, np.newaxis]
    if not np.ptp(margins, axis=-1).any():
        return 1.0

    def slope(log_temperature):
        """Derivative of the mean negative log-likelihood in `1 / T`."""
        probs = np.exp(scale_log_probs(margins, float(np.exp(log_temperature))))
        return float(np.mean(np.sum(probs * margins, axis=-1)))

    low, high = np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE)
    if slope(high) >= 0.0:
        return MAX_TEMPERATURE
    if slope(low) <= 0.0:
        return MIN_TEMPERATURE
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-13)))


def scale_log_probs(log_probs: ArrayLike, temperature: float) -> Array:
    """Log-probabilities of `softmax(log_probs / temperature)`.

    Example:

    >>> np.exp(metrics.scale_log_probs([[2.0, 0.0]], temperature=2.0)).round(3)
    array([[0.731, 0.269]])
    """
    log_probs = checks.as_matrix(log_probs, "log_probs")
    if not (isinstance(temperature, Real) and np.isfinite(temperature) and temperature > 0.0):
        raise ValueError(
            f"temperature: expected a positive number, received {temperature!r}. Pass 1.0 "
            "for no scaling."
        )
    scaled = log_probs / temperature
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    return scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True))


def _checked(probs, labels, num_bins):
    """The confidence of each top label, whether it is right (0 or 1), and the number of bins."""
    probs, labels = checks.as_labeled(probs, labels)
    predicted = probs.argmax(axis=-1)
    confidence, correct = probs[np.arange(labels.size), predicted], predicted == labels
    return confidence, correct.astype(np.float64), checks.as_positive_int(num_bins, "num_bins")


def _bin_indices(confidence: Array, num_bins: int) -> Array:
    """Index of the bin `(k / num_bins, (k + 1) / num_bins]` of each value; 0 is in the first."""
    # Compared with the edges: ceil(confidence * num_bins) rounds some edges into the wrong bin.
    inner_edges = np.linspace(0.0, 1.0, num_bins + 1)[1:-1]
    return np.searchsorted(inner_edges, confidence, side="left")
