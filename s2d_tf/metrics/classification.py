"""Accuracy and the two proper scores of probabilistic predictions."""

from __future__ import annotations

import numpy as np

from s2d_tf._types import ArrayLike
from s2d_tf.metrics import checks
from s2d_tf.metrics.calibration import scale_log_probs


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
