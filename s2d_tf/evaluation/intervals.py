"""Bootstrap intervals over the test examples: of one model, or of the difference of two.

They show the spread that another test set of this size would give, not the spread over seeds. They
are percentile intervals (Efron and Tibshirani, 1993, chapter 13), except for the calibration error.
A resample is less calibrated than its source, so the percentiles of its error lie too high, for a
calibrated model wholly above the truth. There the basic interval is taken (Davison and Hinkley,
1997, chapter 5), which reflects the percentiles around the estimate; it reaches down to 0 where
resampling alone makes such an error, and up to the estimate at least.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from s2d_tf.evaluation import resampling, tables
from s2d_tf.evaluation.names import dataset_title, format_difference, metric, metric_title
from s2d_tf.metrics import checks
from s2d_tf.metrics.statistics import LEVEL

if TYPE_CHECKING:
    from s2d_tf.evaluation.evaluator import Gathered

NUM_RESAMPLES = 10_000


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

    Returns:
        Dict of `Interval`.
    """
    models = [checks.as_matrix(m, "log_probs") for m in (log_probs, other) if m is not None]
    for model in models:
        labels = checks.as_labels(labels, *model.shape)
    checks.as_positive_int(num_resamples, "num_resamples")
    samples = resampling.classification_resamples(models, labels, num_resamples, seed)
    found = {n: _percentile(samples, n) for n in ("accuracy", "nll", "ece", "brier")}
    estimate, ece = found["ece"].estimate, found["ece"]
    low, high = 2.0 * estimate - ece.high, 2.0 * estimate - ece.low
    if other is None:
        may_be_noise = estimate <= np.quantile(samples[0]["ece_noise"][1:], (1.0 + LEVEL) / 2.0)
        low = 0.0 if may_be_noise else max(low, 0.0)
        high = min(max(high, estimate), 1.0)
    return found | {"ece": Interval(estimate, low, high)}


def detection(
    id_scores: dict[str, np.ndarray],
    ood_scores: dict[str, np.ndarray],
    other: Any = None,
    num_resamples: int = NUM_RESAMPLES,
    seed: int = 0,
) -> dict[str, Interval]:
    """Intervals of AUROC and AUPR; ID and OOD examples are resampled separately.

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
    models = [_pairs(*scores) for scores in ((id_scores, ood_scores), other) if scores]
    shared = {n: [model[n] for model in models] for n in models[0] if n in models[-1]}
    if not shared:
        raise ValueError(
            f"other: expected one of the scores {', '.join(models[0])}, received "
            f"{', '.join(models[1])}. Compare models that share a score."
        )
    flat = [pair for pairs in shared.values() for pair in pairs]
    if len({(known.size, unknown.size) for known, unknown in flat}) > 1:
        raise ValueError(
            "other: expected scores of the same examples, received sets of different sizes. "
            "Score both models on the same data."
        )
    checks.as_positive_int(num_resamples, "num_resamples")
    samples = iter(resampling.detection_resamples(flat, num_resamples, seed))
    drawn = {name: [next(samples) for _ in pairs] for name, pairs in shared.items()}
    return {
        f"{ranking}/{name}": _percentile(own, ranking)
        for name, own in drawn.items()
        for ranking in ("auroc", "aupr")
    }


def of_gathered(
    first: Gathered, second: Any = None, num_resamples: int = NUM_RESAMPLES
) -> dict[str, dict]:
    """Intervals of a run's metrics, or of the differences first minus second of two.

    Args:
        first: `evaluator.Gathered`.
        second: another on the same data, or None.
        num_resamples: number of bootstrap resamples.

    Returns:
        Flat dict `{"cifar100/nll": {"estimate", "low", "high", "level"}, ...}`, of a difference for
        the datasets and uncertainties that both have.
    """
    dataset, known = first.dataset, first.known
    if second and first.facts[dataset] != second.facts.get(dataset):
        raise ValueError(
            "second: expected a run that was tested on the same images as the first, "
            f"{dataset} ({first.facts[dataset]['fingerprint'][:12]}), received "
            f"{second.dataset} ({second.facts[second.dataset]['fingerprint'][:12]}). "
            "Evaluate both on the same data."
        )
    for name in first.inputs if second else ():
        if second.inputs.get(name, first.inputs[name]) != first.inputs[name]:
            raise ValueError(
                f"{name}: expected the same examples in the same order for both models, received "
                "others. Remove the shuffling from the dataset."
            )
    other = second and second.known.log_probs
    found = {dataset: classification(known.log_probs, known.labels, other, num_resamples)}
    for name, unknown in first.unknown.items():
        if second is None or name in second.unknown:
            other = second and (second.known.scores, second.unknown[name].scores)
            found[name] = detection(known.scores, unknown.scores, other, num_resamples)
    return {
        f"{name}/{key}": dataclasses.asdict(interval)
        for name, own in found.items()
        for key, interval in own.items()
    }


def difference_table(
    found: dict[str, dict], caption: str, num_resamples: int, notes: Sequence[str] = ()
) -> tables.Table:
    """Table of the differences of `of_gathered`, with more footnotes."""
    blocks: dict[str, list] = {}
    for key, value in found.items():
        low, high = (value["low"], value["high"])
        if metric(key).best is min:
            low, high = -high, -low
        verdict = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
        dataset = dataset_title(key.split("/")[0])
        numbers = [format_difference(key, value[part]) for part in ("estimate", "low", "high")]
        row = [dataset, metric_title(key), *numbers, verdict]
        blocks.setdefault(dataset, []).append(row)
    return tables.make(
        caption,
        ["Data", "Metric", "Difference", "95% from", "to", "The first is"],
        list(blocks.values()),
        stub=2,
        footnotes=[
            f"{num_resamples:,} resamples of the test examples, in pairs; percentage points except "
            "for NLL. Variation over seeds is not included.",
            *notes,
        ],
    )


def _percentile(samples, name):
    """Of one model's resamples, or of the first's minus the second's; the estimate comes first."""
    values = functools.reduce(operator.sub, [part[name] for part in samples])
    low, high = np.quantile(values[1:], [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
    return Interval(float(values[0]), float(low), float(high))


def _pairs(id_scores, ood_scores):
    if not id_scores or set(id_scores) != set(ood_scores):
        raise ValueError(
            "id_scores and ood_scores: expected dicts with the same keys, received "
            f"{sorted(id_scores)} and {sorted(ood_scores)}. Pass the same scores of both."
        )
    sides = {"id_scores": id_scores, "ood_scores": ood_scores}
    return {
        name: [checks.as_scores(part[name], f"{side}[{name!r}]") for side, part in sides.items()]
        for name in id_scores
    }
