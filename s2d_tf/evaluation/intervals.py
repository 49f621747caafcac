"""How sure a number is: over the test examples (bootstrap), and over seeds (Student's t).

Bootstrap intervals show the spread that another test set of this size would give, not the spread
over seeds. They are percentile intervals (Efron and Tibshirani, 1993, chapter 13), except for the
calibration error: a resample is less calibrated than its source, so the percentiles of its error
are too high, for a calibrated model wholly above the truth. There the basic interval is taken
(Davison and Hinkley, 1997, chapter 5), which reflects the percentiles around the estimate.

All that a metric needs of a resample is how often each example was drawn. The counts
`[resamples, examples]` are drawn once and shared by every metric, score and model, which makes
comparisons paired. Means and the bins of the calibration error are matrix products; for the ranking
metrics the examples are sorted once. The first row of every result is the test set itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from s2d_tf import metrics
from s2d_tf._types import ArrayLike
from s2d_tf.metrics import checks
from s2d_tf.metrics.statistics import LEVEL

NUM_RESAMPLES = 10_000
RANKINGS = ("auroc", "aupr", "fpr_at_95_recall")
"""Metrics of detection."""
# Counts are handled in pieces of this many bytes, which stay in the processor's cache.
_CHUNK_BYTES = 2**19


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    level: float = LEVEL


def classification(
    log_probs: Any,
    labels: Any,
    other: Any = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Intervals of accuracy, nll, ece and brier.

    Args:
        log_probs: `[examples, classes]` logits or log-probabilities, for members the log of their
            mean probability; normalized inside.
        labels: `[examples]` integer classes.
        other: the same of a second model on the same examples: then the intervals are of the
            differences, first minus other, resampled in pairs.
        num_resamples: number of bootstrap resamples.
        seed: integer; the same seed gives the same intervals.
    """
    models = [checks.as_matrix(m, "log_probs") for m in (log_probs, other) if m is not None]
    for model in models:
        labels = checks.as_labels(labels, *model.shape)
    columns = [_per_example(model, labels) for model in models]
    # One product for each model: the same model twice has the same sums to the last bit.
    parts = [
        [
            (counts @ own / labels.size, metrics.calibration_gaps(sure, own[:, 0], counts=counts))
            for own, sure in columns
        ]
        for counts in draw_counts(labels.size, num_resamples, (seed, 0))
    ]
    samples = []
    for model_parts in zip(*parts, strict=True):
        means, gaps = (np.concatenate(own) for own in zip(*model_parts, strict=True))
        own = dict(zip(("accuracy", "nll", "brier"), means.T, strict=True))
        samples.append({**own, "ece": np.abs(gaps).sum(axis=1)})
    found = {name: percentiles(samples, name) for name in ("accuracy", "nll", "ece", "brier")}
    ece = basic(found["ece"], may_be_negative=other is not None)
    # What resampling alone makes: the distance of the bins' gaps from those of the whole set.
    noise = np.abs(gaps[1:] - gaps[0]).sum(axis=1)
    if other is None and ece.estimate <= np.quantile(noise, (1.0 + LEVEL) / 2.0):
        ece = dataclasses.replace(ece, low=0.0)
    return found | {"ece": ece}


def detection(
    id_scores: dict[str, np.ndarray],
    ood_scores: dict[str, np.ndarray],
    other: Any = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Intervals of AUROC, AUPR and FPR at 95% recall; ID and OOD examples are resampled separately.

    Args:
        id_scores: dict of scores of the ID examples, such as `{"total": ..., "knowledge": ...}`.
        ood_scores: dict of scores of the OOD examples, with the same keys. All scores of an
            example are resampled together.
        other: `(id_scores, ood_scores)` of a second model on the same examples in the same order:
            then the intervals are of the differences for the scores that both have.
        num_resamples: number of bootstrap resamples.
        seed: integer; the same seed gives the same intervals.

    Returns:
        Dict of `Interval` with keys `auroc/total`, `aupr/total`, ...
    """
    pairs = [scores for scores in ((id_scores, ood_scores), other) if scores]
    shared = [name for name in id_scores if name in pairs[-1][0]]
    flat = [[side[name] for side in pair] for name in shared for pair in pairs]
    sizes = [len(part) for part in flat[0]]
    step = _step(sum(sizes))
    drawn = [draw_counts(n, num_resamples, (seed, i), step) for i, n in enumerate(sizes)]
    rankings = [metrics.Ranking(*pair) for pair in flat]
    parts = [
        [[getattr(own, metric)(*counts) for metric in RANKINGS] for own in rankings]
        for counts in zip(*drawn, strict=True)
    ]
    samples = [dict(zip(RANKINGS, np.hstack(own), strict=True)) for own in zip(*parts, strict=True)]
    return {
        f"{metric}/{name}": percentiles(samples[i * len(pairs) :][: len(pairs)], metric)
        for i, name in enumerate(shared)
        for metric in RANKINGS
    }


def draw_counts(
    num_examples: int, num_resamples: int, seed: Any, step: int | None = None
) -> Iterator[np.ndarray]:
    """Yields how often each example is drawn, first once each: float64 `[step, num_examples]`."""
    checks.as_positive_int(num_resamples, "num_resamples")
    rng, step = np.random.default_rng(seed), step or _step(num_examples)
    yield np.ones((1, num_examples))
    for start in range(0, num_resamples, step):
        drawn = (
            rng.integers(0, num_examples, size=num_examples, dtype=np.uint32)
            for _ in range(min(step, num_resamples - start))
        )
        yield np.array([np.bincount(each, minlength=num_examples) for each in drawn], np.float64)


def percentiles(samples: Sequence[dict[str, np.ndarray]], name: str) -> Interval:
    """Of one model's resamples, or of the first's minus the second's; the estimate comes first."""
    values = samples[0][name] - (samples[1][name] if len(samples) > 1 else 0.0)
    low, high = np.quantile(values[1:], [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(values[0]), float(low), float(high))


def basic(interval: Interval, may_be_negative: bool) -> Interval:
    """A percentile interval reflected around its estimate, for calibration errors."""
    low, high = 2.0 * interval.estimate - interval.high, 2.0 * interval.estimate - interval.low
    if not may_be_negative:
        low, high = max(low, 0.0), min(max(high, interval.estimate), 1.0)
    return Interval(interval.estimate, low, high)


def mean_and_two_std(values: ArrayLike) -> tuple[float, float | None]:
    """Mean and two sample standard deviations (divisor n - 1) over seeds.

    The second is None for a single value. Five seeds give only a rough standard deviation: the true
    one is between 0.6 and 2.9 times it, at 95%.
    """
    values = checks.as_scores(values, "values")
    return float(values.mean()), float(2.0 * values.std(ddof=1)) if values.size > 1 else None


def _step(num_examples):
    return max(1, _CHUNK_BYTES // (8 * num_examples))


def _per_example(log_probs, labels):
    """Columns whose means are accuracy, NLL and Brier score; and confidences."""
    log_probs = metrics.scale_log_probs(log_probs, 1.0)
    probs, rows = np.exp(log_probs), np.arange(labels.size)
    predicted = probs.argmax(axis=-1)
    correct = (predicted == labels).astype(np.float64)
    confidence = probs[rows, predicted]
    brier = np.sum((probs - np.eye(probs.shape[1])[labels]) ** 2, axis=-1)
    return np.column_stack((correct, -log_probs[rows, labels], brier)), confidence
