"""A model and datasets to one flat dict of metrics."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from s2d_tf import data, metrics, models
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import intervals, tables
from s2d_tf.evaluation.example_scores import Scored, choose_detectors, posthoc_scores, score
from s2d_tf.evaluation.predictions import open_source, predict
from s2d_tf.metrics import checks

# Share of the examples that are still answered in `risk_at_80_coverage`.
COVERAGE = 0.8


def evaluate(
    predictor: models.Predictor,
    dataset: Any,
    ood: Any = (),
    data_dir: PathLike | None = None,
    split: str = "test",
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    name: str = "data",
    detectors: str | Iterable[str] = (),
    training: Any = "train",
) -> dict[str, float]:
    """All metrics of a model on its dataset and on out-of-distribution ones.

    Args:
        predictor: a `models.Predictor`.
        dataset: what the model is tested on: the name of a registered dataset; `(x, y)` arrays; or
            a `tf.data.Dataset` of `(x, y)`, which is streamed. Labels are class numbers or one-hot
            rows. Several inputs are a list or a dict. A `pathlib.Path` is a folder of images with
            one subfolder per class, see `data.open_folder`.
        ood: out-of-distribution data: names of registered datasets, of which the test split is
            taken, or `{name: data}`, where data is a name, inputs, `(x, y)`, a `tf.data.Dataset`,
            or the `pathlib.Path` of a folder, of which all images are taken.
        data_dir: TFDS folder.
        split: split of a registered dataset or a folder.
        cache_dir: folder of cached predictions, found again by the content of data and weights;
            None makes and keeps none.
        batch_size: examples per forward pass; it does not change the answer.
        name: what the keys of a dataset without a registered name begin with.
        detectors: names of post-hoc detectors, or `"all"`. Those that the model carries come by
            themselves.
        training: what they are fitted on: a split of `dataset`, or data like it.

    Returns:
        Flat dict of floats, fractions and not percentages: `"cifar100/accuracy"`,
        `"cifar100/aurc/total"`, `"svhn_cropped/auroc/knowledge"`, `"svhn_cropped/auroc/knn"`, ...
        Where predictions do not decompose there are no keys for data and knowledge uncertainty.

    Example:

    >>> noise = np.random.default_rng(1).integers(0, 256, images.shape, dtype=np.uint8)
    >>> found = evaluation.evaluate(model, (images, labels), ood={"noise": noise}, name="mine")
    >>> sorted(found)[:2], "noise/auroc/knowledge" in found
    (['mine/accuracy', 'mine/adaptive_ece'], True)
    """
    return score_datasets(
        predictor,
        dataset,
        ood,
        data_dir,
        split,
        cache_dir,
        batch_size,
        name,
        choose_detectors(detectors, predictor),
        training,
    ).metrics()


def compare(
    first: models.Predictor,
    second: models.Predictor,
    dataset: Any,
    ood: Any = (),
    name: str = "data",
    num_resamples: int = intervals.NUM_RESAMPLES,
    **options: Any,
) -> tables.Table:
    """Compares two models example by example: is the difference more than chance?

    Args:
        first, second: `models.Predictor`s with the same classes.
        dataset, ood, name: as for `evaluate`.
        num_resamples: number of bootstrap resamples of the test examples, in pairs.
        **options: `data_dir`, `split`, `cache_dir` and `batch_size`, as for `evaluate`.

    Returns:
        Table of the differences, first minus second, with paired 95% intervals.

    Example:

    >>> other = models.Classifier(backbone, num_classes=3)
    >>> table = evaluation.compare(model, other, (images, labels), num_resamples=50)
    >>> table.rows[0][1].text, len(table.rows)
    ('Acc', 4)
    """
    pair = [score_datasets(each, dataset, ood, name=name, **options) for each in (first, second)]
    differences = pair[0].intervals(pair[1], num_resamples)
    return tables.difference_table(differences, "First minus second", num_resamples)


@dataclasses.dataclass
class ModelScores:
    """A model's scores on all datasets, and what they were made from.

    Attributes:
        dataset: name of the dataset whose classes the model knows.
        known: its `Scored`.
        unknown: `{name: Scored}` of the out-of-distribution sets.
        missing: `{name: why}` of the datasets that are not available.
        facts: `{name: {"images", "fingerprint"}}` of all sets that were read, of any kind.
        inputs: `{name: hash}` of their inputs in order.
        step_metrics: flat dict of the prediction sets and abstention of the model's own steps.
        seconds: time of the forward passes; what came from the cache took none.

    Example:

    >>> scored = evaluation.score_datasets(model, (images, labels), name="mine")
    >>> isinstance(scored, evaluation.ModelScores), scored.facts["mine"]["images"]
    (True, 40)
    """

    dataset: str
    known: Scored
    unknown: dict[str, Scored]
    missing: dict[str, str]
    facts: dict[str, dict]
    inputs: dict[str, str]
    step_metrics: dict[str, float]
    seconds: float

    def metrics(self) -> dict[str, float]:
        """The flat dict of `evaluate`."""
        found = _classification(self.dataset, self.known)
        for name, scored in self.unknown.items():
            found |= {
                f"{name}/{metric}/{key}": getattr(metrics, metric)(values, scored.scores[key])
                for key, values in self.known.scores.items()
                for metric in intervals.RANKINGS
            }
        for name, scored in {self.dataset: self.known, **self.unknown}.items():
            if "knowledge" in scored.scores:
                found[f"{name}/rank_correlation"] = metrics.rank_correlation(
                    scored.scores["data"], scored.scores["knowledge"]
                )
        return found | self.step_metrics

    def intervals(
        self, other: ModelScores | None = None, num_resamples: int = intervals.NUM_RESAMPLES
    ) -> dict[str, dict]:
        """Bootstrap intervals of the metrics, or of the differences of this model and another.

        Args:
            other: another model's on the same data, or None.
            num_resamples: number of bootstrap resamples.

        Returns:
            Flat dict `{"cifar100/nll": {"estimate", "low", "high", "level"}, ...}`, of a difference
            for the datasets and uncertainties that both have.
        """
        shared = [n for n in self.unknown if other is None or n in other.unknown]
        for name in (self.dataset, *shared):
            sets = [(m.inputs.get(name), m.facts.get(name)) for m in (self, other or self)]
            UserError.unless(
                sets[0] == sets[1],
                f"{name}: expected the same examples in the same order for both models, "
                "received different ones. Evaluate both on the same data, without shuffling.",
            )
        logits, known = other and other.known.log_probs, self.known
        args = known.log_probs, known.labels, logits, num_resamples
        found = {self.dataset: intervals.classification(*args)}
        for name in shared:
            pair = other and (other.known.scores, other.unknown[name].scores)
            own = self.known.scores, self.unknown[name].scores
            found[name] = intervals.detection(*own, pair, num_resamples)
        return {
            f"{name}/{key}": dataclasses.asdict(interval)
            for name, own in found.items()
            for key, interval in own.items()
        }


def score_datasets(
    predictor: models.Predictor,
    dataset: Any,
    ood: Any = (),
    data_dir: PathLike | None = None,
    split: str = "test",
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    name: str = "data",
    detectors: Iterable[str] = (),
    training: Any = "train",
    skip_missing: bool = False,
    limit: int | None = None,
    **watching: Any,
) -> ModelScores:
    """All forward passes of `evaluate`, as `ModelScores`.

    `detectors` are names that `choose_detectors` returned. With `skip_missing` an out-of-
    distribution set that is not on this machine is left out and recorded; else it is an error.
    `limit` and `watch` are those of `predict`.

    Example:

    >>> scored = evaluation.score_datasets(model, (images, labels), name="mine")
    >>> "mine/nll" in scored.metrics(), "mine/nll" in scored.intervals(num_resamples=50)
    (True, True)
    """
    reading: dict[str, Any] = {"data_dir": data_dir, "batch_size": batch_size}
    named, missing = dataset if isinstance(dataset, str) else name, {}
    limited = {"limit": limit, **reading}
    sources = {named: open_source(predictor, dataset, named, split, labeled=True, **limited)}
    for key, each in _named_sets(ood).items():
        UserError.unless(
            key not in sources,
            f"ood: expected other names than that of the dataset, received {key!r}. Choose "
            "another.",
        )
        try:
            sources[key] = open_source(predictor, each, key, **limited)
        except data.MissingDataError as error:
            if not skip_missing:
                raise
            missing[key] = str(error)
    # Before hours of forward passes: all labels of arrays, the first batch's of a stream.
    for _, labels in sources[named].batches():
        checks.as_labels(labels, len(labels), predictor.num_classes)
        break
    shared: dict[str, Any] = {"cache_dir": cache_dir, "batch_size": batch_size}
    made = [predict(predictor, source, **watching, **shared) for source in sources.values()]

    def training_source():
        if not isinstance(training, str):
            return open_source(predictor, training, named, labeled=True, **reading)
        UserError.unless(
            isinstance(dataset, (str, pathlib.Path)),
            f"training: expected data to fit detectors on, received {training!r}, a split of "
            "arrays. Pass training=(x, y).",
        )
        return open_source(predictor, dataset, named, training, labeled=True, **reading)

    added, step_metrics = posthoc_scores(
        predictor, made, list(sources.values()), detectors, training_source, **shared
    )
    scored = {}
    for predictions, more in zip(made, added, strict=True):
        scored[predictions.dataset] = score(predictions)
        scored[predictions.dataset].scores.update(more)
    return ModelScores(
        dataset=named,
        known=scored.pop(named),
        unknown=scored,
        missing=missing,
        facts={p.dataset: {"images": len(p), "fingerprint": p.fingerprint} for p in made},
        inputs={p.dataset: p.inputs for p in made},
        step_metrics=step_metrics,
        seconds=sum(predictions.seconds for predictions in made),
    )


def _classification(dataset, scored):
    """Metrics of the dataset whose classes the model knows."""
    found = {f"{dataset}/accuracy": metrics.accuracy(scored.probs, scored.labels)}
    found |= calibration(f"{dataset}/", scored.log_probs, scored.labels)
    for name, values in scored.scores.items():
        pair = values, scored.errors
        found |= {
            f"{dataset}/aurc/{name}": metrics.area_under_risk_coverage(*pair),
            f"{dataset}/augrc/{name}": metrics.area_under_generalized_risk_coverage(*pair),
            f"{dataset}/risk_at_80_coverage/{name}": float(
                metrics.risk_after_rejection(*pair, 1.0 - COVERAGE)
            ),
        }
    return found


def calibration(prefix: str, log_probs: np.ndarray, labels: np.ndarray) -> dict[str, float]:
    """The metrics that temperature scaling changes, under keys that begin with `prefix`."""
    probs = np.exp(log_probs)
    return {
        f"{prefix}nll": metrics.negative_log_likelihood_from_log_probs(log_probs, labels),
        f"{prefix}ece": metrics.expected_calibration_error(probs, labels),
        f"{prefix}adaptive_ece": metrics.adaptive_calibration_error(probs, labels),
        f"{prefix}brier": metrics.brier_score(probs, labels),
    }


def _named_sets(ood):
    """`{name: data}` of what `evaluate` takes as `ood`."""
    if isinstance(ood, dict):
        return ood
    UserError.unless(
        not isinstance(ood, str) and all(isinstance(name, str) for name in ood),
        "ood: expected a list of registered names or a dict {name: data}, received "
        f"{type(ood).__name__}. Give the data a name: ood={{'mine': data}}.",
    )
    return {name: name for name in ood}
