"""A model and datasets to one flat dict of metrics."""

from __future__ import annotations

import dataclasses
import os
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from s2d_tf import data, metrics
from s2d_tf._types import PathLike
from s2d_tf.evaluation import detectors as detectors_lib
from s2d_tf.evaluation.names import reading_key
from s2d_tf.evaluation.predictions import predict
from s2d_tf.evaluation.scoring import Scored, score
from s2d_tf.evaluation.sources import Source, facts_of, open_source
from s2d_tf.metrics import checks

if TYPE_CHECKING:
    from s2d_tf.models import Predictor

# Share of the examples that are still answered in `risk_at_80_coverage`.
COVERAGE = 0.8
HALVES_SEED = 0


def evaluate(
    predictor: Predictor,
    dataset: Any,
    ood: Any = (),
    data_dir: PathLike | None = None,
    split: str = "test",
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    name: str = "data",
    detectors: Iterable[str] = (),
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
        detectors: names of post-hoc detectors, or `"all"`, see `names.DETECTORS`. Those that the
            model carries come by themselves.
        training: what they are fitted on: a split of `dataset`, or data like it.

    Returns:
        Flat dict of floats, fractions and not percentages: `"cifar100/accuracy"`,
        `"cifar100/aurc/total"`, `"svhn_cropped/auroc/knowledge"`, `"svhn_cropped/auroc/knn"`, ...
        Where predictions do not decompose there are no keys for data and knowledge uncertainty. A
        Gaussian student, whose answer is that of its draws, also has every key by its mean:
        `"cifar100/mean_nll"`.

    Example:

    >>> noise = np.random.default_rng(1).integers(0, 256, images.shape, dtype=np.uint8)
    >>> found = evaluation.evaluate(model, (images, labels), ood={"noise": noise}, name="mine")
    >>> sorted(found)[:2], "noise/auroc/knowledge" in found
    (['mine/accuracy', 'mine/adaptive_ece'], True)
    """
    return gather(
        predictor,
        dataset,
        ood,
        data_dir,
        split,
        cache_dir=cache_dir,
        batch_size=batch_size,
        name=name,
        detectors=detectors_lib.choose(detectors, predictor),
        training=training,
    ).metrics()


@dataclasses.dataclass
class Gathered:
    """A model's scores on all datasets, and what they were made from.

    Attributes:
        dataset: name of the dataset whose classes the model knows.
        known: its `Scored`.
        unknown: `{name: Scored}` of the out-of-distribution sets.
        missing: `{name: why}` of the datasets that are not available.
        facts: `{name: {"images", "fingerprint"}}` of all sets that were read; `images` counts
            examples of any kind.
        forward_seconds: time of the forward passes; what came from the cache took none.
        score_seconds: time from member predictions to scores.
        sources: `{name: sources.Source}` of all sets that were read.
        inputs: `{name: hash}` of their inputs in order: where it differs, examples are not pairs.
        class_names: one for each class, where they are known.
        readings: `{name: (known, unknown)}`, the same of each of the predictor's `readings`.
        step_metrics: flat dict of the prediction sets and abstention of the model's own steps.
        detector_seconds: time to fit and to score all detectors.
    """

    dataset: str
    known: Scored
    unknown: dict[str, Scored]
    missing: dict[str, str]
    facts: dict[str, dict]
    forward_seconds: float
    score_seconds: float
    sources: dict[str, Source]
    inputs: dict[str, str]
    class_names: tuple[str, ...] | None = None
    readings: dict = dataclasses.field(default_factory=dict)
    step_metrics: dict[str, float] = dataclasses.field(default_factory=dict)
    detector_seconds: float = 0.0

    def metrics(self) -> dict[str, float]:
        """The flat dict of `evaluate`."""
        found = _metrics(self.dataset, self.known, self.unknown)
        for reading, scored in self.readings.items():
            other = _metrics(self.dataset, *scored)
            found |= {reading_key(reading, key): value for key, value in other.items()}
        return found | self.step_metrics


def _metrics(dataset, known, unknown):
    found = classification(dataset, known)
    for name, scored in unknown.items():
        found |= detection(name, known, scored)
    for name, scored in {dataset: known, **unknown}.items():
        if "knowledge" in scored.scores:
            pair = scored.scores["data"], scored.scores["knowledge"]
            found[f"{name}/rank_correlation"] = metrics.rank_correlation(*pair)
    return found


def gather(
    predictor: Predictor,
    dataset: Any,
    ood: Any = (),
    data_dir: PathLike | None = None,
    split: str = "test",
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    skip_missing: bool = False,
    name: str = "data",
    detectors: Iterable[str] = (),
    training: Any = "train",
) -> Gathered:
    """All forward passes of `evaluate`, as `Gathered`.

    `detectors` are names from `detectors.choose`; they are fitted on the split `training`.

    With `skip_missing` an out-of-distribution set that is not on this machine is left out and
    recorded; else it is an error, as for `dataset` always.
    """
    reading = {"data_dir": data_dir, "batch_size": batch_size, **facts_of(predictor)}
    named = dataset if isinstance(dataset, str) else name
    sources, missing = {named: open_source(dataset, named, split, labeled=True, **reading)}, {}
    for key, each in named_sets(ood).items():
        if key in sources:
            raise ValueError(
                f"ood: expected other names than that of the dataset, received {key!r}. Choose "
                "another."
            )
        try:
            sources[key] = open_source(each, key, **reading)
        except data.MissingDataError as error:
            if not skip_missing:
                raise
            missing[key] = str(error)
    # Before hours of forward passes: all labels of arrays, the first batch's of a stream.
    for _, labels in sources[named].batches():
        checks.as_labels(labels, len(labels), predictor.num_classes)
        break
    shared: dict[str, Any] = {"cache_dir": cache_dir, "batch_size": batch_size}
    made = [predict(predictor, source, **shared) for source in sources.values()]
    began = time.monotonic()
    known, unknown = _score_all(made)
    readings = {
        key: _score_all([predictions.read_as(members) for predictions in made])
        for key, members in predictor.readings.items()
    }
    score_seconds = time.monotonic() - began
    added = detectors_lib.add(
        predictor,
        made,
        list(sources.values()),
        detectors,
        lambda: _training_source(dataset, named, training, reading),
        cache_dir,
        batch_size,
    )
    known, *others = [
        dataclasses.replace(scored, scores=scored.scores | more)
        for scored, more in zip([known, *unknown.values()], added.scores, strict=True)
    ]
    unknown = dict(zip(unknown, others, strict=True))
    return Gathered(
        dataset=named,
        known=known,
        unknown=unknown,
        missing=missing,
        facts={p.dataset: {"images": len(p), "fingerprint": p.fingerprint} for p in made},
        forward_seconds=sum(p.seconds for p in made) + added.forward_seconds,
        score_seconds=score_seconds,
        sources=sources,
        inputs={p.dataset: p.inputs for p in made},
        class_names=getattr(predictor, "class_names", None) or sources[named].class_names,
        readings=readings,
        step_metrics=added.metrics,
        detector_seconds=added.detector_seconds,
    )


def _training_source(dataset, name, training, reading):
    """What detectors are fitted on."""
    if not isinstance(training, str):
        return open_source(training, name, labeled=True, **reading)
    if isinstance(dataset, (str, os.PathLike)):
        return open_source(dataset, name, training, labeled=True, **reading)
    raise ValueError(
        f"training: expected data to fit detectors on, received {training!r}, a split of arrays. "
        "Pass training=(x, y)."
    )


def _score_all(made):
    """`Scored` of the first predictions, and those of the others by their datasets' names."""
    first, *others = made
    return score(first), {predictions.dataset: score(predictions) for predictions in others}


def named_sets(ood: Any) -> dict:
    """`{name: data}` of what `evaluate` takes as `ood`."""
    if isinstance(ood, dict):
        return ood
    if isinstance(ood, str) or not all(isinstance(name, str) for name in ood):
        raise ValueError(
            "ood: expected a list of registered names or a dict {name: data}, received "
            f"{type(ood).__name__}. Give the data a name: ood={{'mine': data}}."
        )
    return {name: name for name in ood}


def classification(dataset: str, scored: Scored) -> dict[str, float]:
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


def detection(ood: str, known: Scored, unknown: Scored) -> dict[str, float]:
    """Metrics of detecting the dataset `ood` among the one that the model knows."""
    return {
        f"{ood}/{metric}/{name}": getattr(metrics, metric)(values, unknown.scores[name])
        for name, values in known.scores.items()
        for metric in ("auroc", "aupr", "fpr_at_95_recall")
    }


def scaled_metrics(
    dataset: str, scored: Scored, validation: Scored | None = None
) -> dict[str, float]:
    """Metrics after temperature scaling, under keys such as `"cifar100/scaled_nll"`.

    A temperature is fitted on examples that the model has not been trained on. Where a run has kept
    the validation split out of its training, that is the validation split. A run that was trained
    on all training images has none left; then the test split is cut into two halves and each is
    scaled by the temperature of the other, so that no example helps to choose its own temperature.

    Args:
        dataset: name of the dataset.
        scored: `Scored` of its test split.
        validation: `Scored` of held-out examples, or None for the halves of the test split.

    Returns:
        Flat dict: `temperature` (of the halves the geometric mean), `scaled_nll`, `scaled_ece`,
        `scaled_adaptive_ece`, `scaled_brier`. Accuracy does not change.
    """
    if validation is not None:
        temperature = metrics.fit_temperature(validation.log_probs, validation.labels)
        log_probs = metrics.scale_log_probs(scored.log_probs, temperature)
    else:
        temperature, log_probs = _cross_fitted(scored)
    found = calibration(f"{dataset}/scaled_", log_probs, scored.labels)
    return {f"{dataset}/temperature": temperature, **found}


def _cross_fitted(scored):
    order = np.random.default_rng(HALVES_SEED).permutation(len(scored.labels))
    halves = order[::2], order[1::2]
    log_probs, temperatures = np.empty_like(scored.log_probs), []
    for own, other in (halves, halves[::-1]):
        temperature = metrics.fit_temperature(scored.log_probs[other], scored.labels[other])
        log_probs[own] = metrics.scale_log_probs(scored.log_probs[own], temperature)
        temperatures.append(temperature)
    return float(np.sqrt(np.prod(temperatures))), log_probs
