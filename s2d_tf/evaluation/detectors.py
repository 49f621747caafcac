"""Post-hoc scores in an evaluation: detectors by name, and what a model's own steps add.

Feature vectors are computed once for each dataset and kept beside the predictions. Detectors that
read the prediction alone take the cached predictions.
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from s2d_tf import files, metrics, models, posthoc
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation.predictions import Predictions, read_array, weights_hash
from s2d_tf.evaluation.sources import Source
from s2d_tf.posthoc import Detector, State, chain, root

ALL = "all"


def choose(
    chosen: str | Iterable[str], predictor: models.Predictor, log: Callable | None = None
) -> tuple[str, ...]:
    """Names of the detectors to fit, in the order of all tables.

    Args:
        chosen: `"all"`, names in one text (`"knn,energy"`), or names.
        predictor: the model. Detectors that it carries as fitted steps are left out.
        log: gets a line on the detectors that need the features of a single network where there is
            none; without it they are an error, unless `"all"` was chosen.
    """
    names = [name for name in chosen.split(",") if name] if isinstance(chosen, str) else [*chosen]
    everything, known = names == [ALL], posthoc.detectors()
    unknown = [name for name in names if name not in known and not everything]
    if unknown:
        raise UserError(
            f"detectors: expected 'all' or some of {', '.join(known)}, received {unknown[0]!r}. "
            "Correct the name."
        )
    carried = {own.step.name for own in chain(predictor)}
    names = [name for name in known if (everything or name in names) and name not in carried]
    if not names or has_features(predictor):
        return tuple(names)
    missing = [name for name in names if known[name].reads_features]
    if missing and log is not None:
        log(f"skipped {', '.join(missing)}: they need the features of a single network")
    elif missing and not everything:
        raise UserError(
            f"detectors: expected ones that read the prediction alone, since the model is not a "
            f"single network, received {missing[0]!r}. Evaluate one of its members."
        )
    return tuple(name for name in names if name not in missing)


def has_features(predictor: models.Predictor) -> bool:
    """Whether a model is a single network with one prediction for each input."""
    try:
        return root(predictor).num_members == 1 and root(predictor).last_layer is not None
    except ValueError:
        return False


def posthoc_scores(
    predictor: models.Predictor,
    made: list[Predictions],
    sources: list[Source],
    names: Iterable[str] = (),
    training: Callable[[], Source] | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
) -> tuple[list[dict[str, np.ndarray]], dict[str, float]]:
    """Scores of detectors and of the model's own steps.

    Args:
        predictor: the model.
        made: its predictions, those on the dataset whose classes it knows first.
        sources: what they were made from.
        names: what `choose` returned; they are fitted on the network, with default options.
        training: opens the examples to fit them on; called only where a detector needs them.
        cache_dir: folder of features; None keeps none.
        batch_size: images per forward pass.

    Returns:
        `{name: [n]}` for each of the predictions, larger = more out of distribution; and the flat
        metrics of the prediction sets and the abstention of the model's own steps.
    """
    own, network = [each.step for each in chain(predictor)], root(predictor)
    steps: list[Any] = [posthoc.detectors()[name]() for name in names]
    scores: list[dict] = [{} for _ in made]
    outputs: list[Any] = [None] * len(made)
    if any(step.reads_features for step in steps) or (own and has_features(predictor)):
        outputs = [_outputs(network, source, cache_dir, batch_size) for source in sources]
    fit_on = None
    if any(step.reads_features and step.needs_data for step in steps):
        examples = training()  # type: ignore[misc]  # who names detectors gives them
        fit_on = _outputs(network, examples, cache_dir, batch_size)
    for step in steps:  # one after the other: some hold as much as all features
        fitted = None
        if step.reads_features:
            fitted = step.fit(network, fit_on if step.needs_data else None)
        for found, predictions, cached in zip(scores, made, outputs, strict=True):
            if fitted is not None:
                found[step.name] = fitted.score(cached)
                continue
            states = (State(predictions.kind, chunk) for chunk in predictions.chunks())
            found[step.name] = np.concatenate([step.scores({}, s).numpy() for s in states])
    answers = []
    for found, source, cached in zip(scores, sources, outputs, strict=True) if own else ():
        blocks = [cached] if cached else (inputs for inputs, _ in source.batches())
        parts = [predictor.predict_uncertainty(block, batch_size) for block in blocks]
        answers.append({key: np.concatenate([part[key] for part in parts]) for key in parts[0]})
        found |= {s.name: answers[-1][s.name] for s in own if isinstance(s, Detector)}
    return scores, _step_metrics(made[0], answers[0], own) if own else {}


def _outputs(network, source, cache_dir, batch_size):
    """`posthoc.Outputs` of a single network, features from the cache where they are in it."""
    content, path = source.content(), None
    if cache_dir:
        # Not the key of the predictions, by which their files are found.
        facts = f"features {weights_hash(network)} {content.inputs}"
        key = hashlib.sha256(facts.encode()).hexdigest()[:20]
        path = pathlib.Path(cache_dir) / f"{source.name}.{source.split}.features.{key}.npy"
    stored = read_array(path, (len(content), int(network.last_layer.kernel.shape[-2])))
    if stored is None:
        blocks = (inputs for inputs, _ in source.batches())
        made = [posthoc.collect(network, each, batch_size=batch_size).features for each in blocks]
        stored = np.concatenate(made)[None]
        if path:
            files.write_array(path, stored)
    head = {name: part.numpy() for name, part in posthoc.linear_head(network).items()}
    logits = stored[0] @ head["kernel"] + head["bias"]
    return posthoc.Outputs(logits, stored[0], content.labels)


def _step_metrics(predictions, found, steps):
    """Coverage and size of prediction sets, and how often and how well the model answers."""
    dataset, labels, metric = predictions.dataset, predictions.labels, {}
    errors = found["probs"].argmax(axis=-1) != labels
    for step in steps:
        values: Any = found.get(step.name)
        if isinstance(step, posthoc.ConformalSets):
            metric[f"{dataset}/set_coverage/{step.name}"] = metrics.set_coverage(values, labels)
            metric[f"{dataset}/set_size/{step.name}"] = metrics.mean_set_size(values)
        if isinstance(step, posthoc.SelectiveClassifier):
            metric[f"{dataset}/answered/{step.name}"] = float(np.mean(~values))
            wrong = float(errors[~values].mean()) if not values.all() else 0.0
            metric[f"{dataset}/answered_errors/{step.name}"] = wrong
    return metric
