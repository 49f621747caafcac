"""Metrics of many bootstrap resamples at once, exactly, without sorting each anew.

A resample of n examples is n draws with replacement; all that a metric needs to know is how often
each example was drawn. So the counts `[resamples, examples]` are drawn once and shared by every
metric, score and model, which makes comparisons paired. Means, and the bins of the calibration
error, are then matrix products; for the ranking metrics the examples are sorted once and sums over
the sorted counts give all resamples together. The first row of every answer is the set itself, each
example drawn once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from s2d_tf import metrics

# Counts are handled in pieces of this many bytes, which stay in the processor's cache.
CHUNK_BYTES = 2**19


def draw_counts(
    num_examples: int, num_resamples: int, seed: Any, step: int
) -> Iterator[np.ndarray]:
    """Yields how often each example is drawn, first once each: float64 `[step, num_examples]`."""
    rng = np.random.default_rng(seed)
    yield np.ones((1, num_examples))
    for start in range(0, num_resamples, step):
        drawn = (
            rng.integers(0, num_examples, size=num_examples, dtype=np.uint32)
            for _ in range(min(step, num_resamples - start))
        )
        yield np.array([np.bincount(each, minlength=num_examples) for each in drawn], np.float64)


def classification_resamples(
    models: Sequence[np.ndarray], labels: np.ndarray, num_resamples: int, seed: int
) -> list[dict[str, np.ndarray]]:
    """Metrics of resampled test sets.

    Args:
        models: list of log-probabilities `[examples, classes]`, all of the same examples.
        labels: `[examples]` integer classes.
        num_resamples: number of resamples.
        seed: integer; the same seed draws the same resamples.

    Returns:
        For each model a dict of `[1 + num_resamples]` arrays: accuracy, nll, ece, brier, and
        ece_noise, the part of the calibration error that resampling alone makes: the distance of
        the gaps of the bins from those of the whole set.
    """
    columns = [_per_example(log_probs, labels) for log_probs in models]
    parts: list[list] = [[] for _ in models]
    drawn = draw_counts(labels.size, num_resamples, (seed, 0), _step(labels.size))
    for counts in drawn:
        for own, (means, confidence) in zip(parts, columns, strict=True):
            gaps = metrics.calibration_gaps(confidence, means[:, 0], counts=counts)
            # One product for each model: the same model twice has the same sums to the last bit.
            own.append(np.hstack([counts @ means / labels.size, gaps]))
    return [
        {
            "accuracy": part[:, 0],
            "nll": part[:, 1],
            "brier": part[:, 2],
            "ece": np.abs(part[:, 3:]).sum(axis=1),
            "ece_noise": np.abs(part[:, 3:] - part[0, 3:]).sum(axis=1),
        }
        for part in map(np.concatenate, parts)
    ]


def detection_resamples(
    scores: Sequence[tuple[np.ndarray, np.ndarray]], num_resamples: int, seed: int
) -> list[dict[str, np.ndarray]]:
    """AUROC and AUPR of resampled ID and OOD sets, each of its own size.

    Args:
        scores: list of pairs `(id_scores, ood_scores)`, all of the same examples.
        num_resamples: number of resamples.
        seed: integer; the same seed draws the same resamples.

    Returns:
        For each pair a dict of `[1 + num_resamples]` arrays: auroc, aupr.
    """
    sizes = [part.size for part in scores[0]]
    step = _step(sum(sizes))
    drawn = [draw_counts(n, num_resamples, (seed, i), step) for i, n in enumerate(sizes)]
    rankings = [metrics.Ranking(*pair) for pair in scores]
    parts = [
        [(own.auroc(*counts), own.aupr(*counts)) for own in rankings]
        for counts in zip(*drawn, strict=True)
    ]
    names = ("auroc", "aupr")
    return [dict(zip(names, np.hstack(own), strict=True)) for own in zip(*parts, strict=True)]


def _step(num_examples):
    return max(1, CHUNK_BYTES // (8 * num_examples))


def _per_example(log_probs, labels):
    """Columns whose means are accuracy, NLL and Brier score; and confidences."""
    log_probs = metrics.scale_log_probs(log_probs, 1.0)
    probs, rows = np.exp(log_probs), np.arange(labels.size)
    predicted = probs.argmax(axis=-1)
    correct = (predicted == labels).astype(np.float64)
    confidence = probs[rows, predicted]
    brier = np.sum((probs - np.eye(probs.shape[1])[labels]) ** 2, axis=-1)
    return np.column_stack((correct, -log_probs[rows, labels], brier)), confidence
