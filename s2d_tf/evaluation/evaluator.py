"""A model and datasets to one flat dict of metrics."""

import dataclasses
import time

import numpy as np

from s2d_tf import data, metrics
from s2d_tf.evaluation.predictions import predict
from s2d_tf.evaluation.scoring import Scored, score

# Share of the examples that are still answered in `risk_at_80_coverage`.
COVERAGE = 0.8
HALVES_SEED = 0


def evaluate(
    predictor, dataset, ood=(), data_dir=None, split="test", cache_dir=None, batch_size=256
):
    """All metrics of a model on its dataset and on out-of-distribution ones.

    Args:
        predictor: a `models.Predictor`.
        dataset: name of the dataset whose classes the model knows.
        ood: names of out-of-distribution datasets, of which the test split is taken.
        data_dir: TFDS folder.
        split: split of `dataset`.
        cache_dir: folder of cached predictions; None makes and keeps none.
        batch_size: images per forward pass; it does not change the answer.

    Returns:
        Flat dict of floats, fractions and not per cent: `"cifar100/accuracy"`,
        `"cifar100/aurc/total"`, `"svhn_cropped/auroc/knowledge"`, ... Where predictions do not
        decompose there are no keys for data and knowledge uncertainty.
    """
    return gather(predictor, dataset, ood, data_dir, split, cache_dir, batch_size).metrics()


@dataclasses.dataclass
class Gathered:
    """A model's scores on all datasets, and what they were made from.

    Attributes:
        dataset: name of the dataset whose classes the model knows.
        known: its `Scored`.
        unknown: `{name: Scored}` of the out-of-distribution sets.
        missing: `{name: why}` of the datasets that are not available.
        facts: `{name: {"images", "fingerprint"}}` of all sets that were read.
        forward_seconds: time of the forward passes; what came from the cache took none.
        score_seconds: time from member predictions to scores.
        engine: what computed the forward passes, "" where all came from the cache.
    """

    dataset: str
    known: Scored
    unknown: dict[str, Scored]
    missing: dict[str, str]
    facts: dict[str, dict]
    forward_seconds: float
    score_seconds: float
    engine: str = ""

    def metrics(self):
        """The flat dict of `evaluate`."""
        found = classification(self.dataset, self.known)
        for name, scored in self.unknown.items():
            found |= detection(name, self.known, scored)
        return found


def gather(
    predictor,
    dataset,
    ood=(),
    data_dir=None,
    split="test",
    cache_dir=None,
    batch_size=256,
    skip_missing=False,
    engine="auto",
):
    """All forward passes of `evaluate`, as `Gathered`.

    With `skip_missing` an out-of-distribution set that is not on this machine is left out and
    recorded; else it is an error, as for `dataset` always.
    """
    shared = {"data_dir": data_dir, "cache_dir": cache_dir, "batch_size": batch_size}
    shared["engine"] = engine
    made = [predict(predictor, dataset, split, **shared)]
    missing = {}
    for name in ood:
        try:
            made.append(predict(predictor, name, "test", **shared))
        except data.MissingDataError as error:
            if not skip_missing:
                raise
            missing[name] = str(error)
    began = time.monotonic()
    scored = [score(predictions) for predictions in made]
    return Gathered(
        dataset=dataset,
        known=scored[0],
        unknown={p.dataset: s for p, s in zip(made[1:], scored[1:], strict=True)},
        missing=missing,
        facts={p.dataset: {"images": len(p), "fingerprint": p.fingerprint} for p in made},
        forward_seconds=sum(predictions.seconds for predictions in made),
        score_seconds=time.monotonic() - began,
        engine=", ".join(sorted({p.engine for p in made} - {""})),
    )


def classification(dataset, scored):
    """Metrics of the dataset whose classes the model knows."""
    found = {f"{dataset}/accuracy": metrics.accuracy(scored.probs, scored.labels)}
    found |= calibration(f"{dataset}/", scored.log_probs, scored.labels)
    for name, values in scored.scores.items():
        pair = values, scored.errors
        found |= {
            f"{dataset}/aurc/{name}": metrics.area_under_risk_coverage(*pair),
            f"{dataset}/augrc/{name}": metrics.area_under_generalized_risk_coverage(*pair),
            f"{dataset}/risk_at_80_coverage/{name}": metrics.risk_after_rejection(
                *pair, 1.0 - COVERAGE
            ),
        }
    return found


def calibration(prefix, log_probs, labels):
    """The metrics that temperature scaling changes, under keys that begin with `prefix`."""
    probs = np.exp(log_probs)
    return {
        f"{prefix}nll": metrics.negative_log_likelihood_from_log_probs(log_probs, labels),
        f"{prefix}ece": metrics.expected_calibration_error(probs, labels),
        f"{prefix}adaptive_ece": metrics.adaptive_calibration_error(probs, labels),
        f"{prefix}brier": metrics.brier_score(probs, labels),
    }


def detection(ood, known, unknown):
    """Metrics of detecting the dataset `ood` among the one that the model knows."""
    return {
        f"{ood}/{metric}/{name}": getattr(metrics, metric)(values, unknown.scores[name])
        for name, values in known.scores.items()
        for metric in ("auroc", "aupr", "fpr_at_95_recall")
    }


def scaled_metrics(dataset, scored, validation=None) -> dict[str, float]:
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
