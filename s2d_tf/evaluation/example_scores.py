"""Scores of predictions: uncertainties, post-hoc detectors, and what a model's own steps add.

Feature vectors are computed once for each dataset and kept beside the predictions. Detectors that
read the prediction alone take the cached predictions.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf import files, metrics, models, posthoc, uncertainty
from s2d_tf._types import ArrayLike, PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation.predictions import Predictions, Source, read, read_array, weights_hash


@dataclasses.dataclass(frozen=True)
class Scored:
    """A dataset as a model sees it.

    Attributes:
        log_probs: float64 `[n, K]`, the log of the members' mean prediction.
        scores: `{uncertainty: [n]}`, larger is more uncertain. "confidence" is the negated log of
            the largest probability; "data" and "knowledge" are missing where a prediction does not
            decompose.
        labels: int64 `[n]`.

    Example:

    >>> scored = evaluation.score(evaluation.predict(model, (images, labels)))
    >>> scored.probs.shape, scored.errors.dtype
    ((40, 3), dtype('bool'))
    """

    log_probs: np.ndarray
    scores: dict[str, np.ndarray]
    labels: np.ndarray

    @property
    def probs(self) -> np.ndarray:
        return np.exp(self.log_probs)

    @property
    def errors(self) -> np.ndarray:
        """Where the most probable class is not the label."""
        return self.log_probs.argmax(axis=-1) != self.labels


def score(predictions: Predictions) -> Scored:
    """`Scored` of `Predictions`, chunk by chunk.

    Example:

    >>> scored = evaluation.score(evaluation.predict(model, (images, labels)))
    >>> list(scored.scores)
    ['confidence', 'total', 'data', 'knowledge']
    """
    parts = [scores(predictions.kind, chunk) for chunk in predictions.chunks()]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Scored(joined.pop("log_probs"), joined, predictions.labels)


def scores(kind: str, member_logits: ArrayLike) -> dict[str, np.ndarray]:
    """Log-probabilities and uncertainty scores of a member stack.

    Args:
        kind: "categorical" or "dirichlet".
        member_logits: `[members, n, K]`, logits, or log-concentrations of Dirichlets.

    Returns:
        Dict of float64 arrays: "log_probs" `[n, K]` and `[n]` "confidence", "total" and, unless it
        is a single categorical prediction, "data" and "knowledge".

    Example:

    >>> kind, member_logits = model.predict_members(images)
    >>> sorted(evaluation.scores(kind, member_logits))
    ['confidence', 'data', 'knowledge', 'log_probs', 'total']
    """
    logits = np.asarray(member_logits, dtype=np.float64)
    found = _compiled(kind, logits.shape[0], logits.shape[-1])(logits)
    return {key: value.numpy() for key, value in found.items()}


@functools.cache
def _compiled(kind, num_members, num_classes):
    # The number of members must be known to the graph: one does not decompose as many do.
    signature = [tf.TensorSpec([num_members, None, num_classes], tf.float64)]

    @tf.function(input_signature=signature)
    def compute(logits):
        answer = uncertainty.from_members(kind, logits)
        log_sum = tf.reduce_logsumexp(tf.nn.log_softmax(logits, axis=-1), axis=0)
        found = {
            "log_probs": log_sum - math.log(num_members),
            "confidence": uncertainty.confidence_score(kind, logits),
            "total": answer["total"],
        }
        if uncertainty.decomposes(kind, num_members):
            found |= {"data": answer["data"], "knowledge": answer["knowledge"]}
        return found

    return compute


def choose_detectors(
    chosen: str | Iterable[str], predictor: models.Predictor, log: Callable | None = None
) -> list[str]:
    """Names of the detectors to fit, in the order of all tables.

    Args:
        chosen: `"all"`, names in one text (`"knn,energy"`), or names.
        predictor: the model. Detectors that it carries as fitted steps are left out.
        log: gets a line on the detectors that need the features of a single network where there is
            none; without it they are an error, unless `"all"` was chosen.
    """
    names = [name for name in chosen.split(",") if name] if isinstance(chosen, str) else [*chosen]
    everything, known = names == ["all"], posthoc.detectors()
    unknown = [name for name in names if name not in known and not everything]
    UserError.unless(
        not unknown,
        f"detectors: expected 'all' or some of {', '.join(known)}, received {unknown!r}. Correct "
        "the names.",
    )
    carried = {own.step.name for own in posthoc.chain(predictor)}
    names = [name for name in known if (everything or name in names) and name not in carried]
    missing = [name for name in names if known[name].reads_features]
    if not missing or _has_features(predictor):
        return names
    if log is not None:
        log(f"skipped {', '.join(missing)}: they need the features of a single network")
    elif not everything:
        raise UserError(
            f"detectors: expected ones that read the prediction alone, since the model is not a "
            f"single network, received {missing[0]!r}. Evaluate one of its members."
        )
    return [name for name in names if name not in missing]


def posthoc_scores(
    predictor: models.Predictor,
    made: list[Predictions],
    sources: list[Source],
    names: Iterable[str],
    training: Callable[[], Source],
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
) -> tuple[list[dict[str, np.ndarray]], dict[str, float]]:
    """Scores of detectors and of the model's own steps.

    Args:
        predictor: the model.
        made: its predictions, those on the dataset whose classes it knows first.
        sources: what they were made from.
        names: what `choose_detectors` returned; they are fitted on the network, with default
            options.
        training: opens the examples to fit them on; called only where a detector needs them.
        cache_dir: folder of features; None keeps none.
        batch_size: images per forward pass.

    Returns:
        `{name: [n]}` for each of the predictions, larger = more out of distribution; and the flat
        metrics of the prediction sets and the abstention of the model's own steps.
    """
    own, network = [each.step for each in posthoc.chain(predictor)], posthoc.root(predictor)
    steps = [posthoc.detectors()[name]() for name in names]
    reading = [step for step in steps if step.reads_features]
    wanted = reading or (own and _has_features(predictor))
    outputs = [
        cached_outputs(network, s, cache_dir, batch_size) if wanted else None for s in sources
    ]
    fit_on = None
    if any(step.needs_data for step in reading):
        fit_on = cached_outputs(network, training(), cache_dir, batch_size)
    found: list[dict] = [{} for _ in made]
    for step in steps:  # one after the other: some hold as much as all features
        fitted: Any = step.fit(network, fit_on) if step.reads_features else None
        for scored, predictions, cached in zip(found, made, outputs, strict=True):
            if fitted:
                scored[step.name] = fitted.score(cached)
            else:
                states = (posthoc.State(predictions.kind, part) for part in predictions.chunks())
                scored[step.name] = np.concatenate([step.scores({}, s).numpy() for s in states])
    if not own:
        return found, {}
    answers = [
        predictor.predict_uncertainty(cached or source.data, batch_size)
        for source, cached in zip(sources, outputs, strict=True)
    ]
    for scored, answer in zip(found, answers, strict=True):
        scored |= {s.name: answer[s.name] for s in own if isinstance(s, posthoc.Detector)}
    return found, _step_metrics(made[0], answers[0], own)


def _has_features(predictor):
    """Whether a model is a single network with one prediction for each input."""
    network = posthoc.root(predictor)
    try:
        return network.num_members == 1 and network.last_layer is not None
    except ValueError:
        return False


def cached_outputs(
    network: models.Predictor, source: Source, cache_dir: PathLike | None, batch_size: int = 256
) -> posthoc.Outputs:
    """`posthoc.Outputs` of a single network, features from the cache where they are in it."""
    content, path = read(source)[0], None
    if cache_dir:
        # Not the key of the predictions, by which their files are found.
        facts = f"features {weights_hash(network)} {content.inputs}"
        key = hashlib.sha256(facts.encode()).hexdigest()[:20]
        path = pathlib.Path(cache_dir) / f"{source.name}.{source.split}.features.{key}.npy"
    head = {name: part.numpy() for name, part in posthoc.linear_head(network).items()}
    stored: Any = path and read_array(path, (len(content), len(head["kernel"])))
    if stored is None:
        found = posthoc.collect(network, source.data, batch_size=batch_size)
        stored = np.asarray(found.features)[None]
        if path:
            files.write_array(path, stored)
    return posthoc.Outputs(stored[0] @ head["kernel"] + head["bias"], stored[0], content.labels)


def _step_metrics(predictions, found, steps):
    """Coverage and size of prediction sets, and how often and how well the model answers."""
    dataset, labels, metric = predictions.dataset, predictions.labels, dict[str, float]()
    errors = found["probs"].argmax(axis=-1) != labels
    for step in steps:
        values: Any = found.get(step.name)
        if isinstance(step, posthoc.ConformalSets):
            metric |= {
                f"{dataset}/set_coverage/{step.name}": metrics.set_coverage(values, labels),
                f"{dataset}/set_size/{step.name}": metrics.mean_set_size(values),
            }
        if isinstance(step, posthoc.SelectiveClassifier):
            wrong = errors[~values]
            metric |= {
                f"{dataset}/answered/{step.name}": float(np.mean(~values)),
                f"{dataset}/answered_errors/{step.name}": float(wrong.sum() / max(1, wrong.size)),
            }
    return metric
