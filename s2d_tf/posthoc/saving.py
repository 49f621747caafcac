"""Fitted steps as files: arrays in safetensors, facts in JSON, checked against the model."""

import pathlib

import numpy as np
import tensorflow as tf

from s2d_tf import files
from s2d_tf.models import Predictor
from s2d_tf.posthoc.predictor import State, StepPredictor, chain, fingerprint, root
from s2d_tf.posthoc.step import Step

FORMAT = "s2d_tf.posthoc 1"
ARRAYS, FACTS = ".safetensors", ".json"


def model_sha256(model: Predictor) -> str:
    """Hex digest of the weights of a model and of its fitted steps."""
    arrays = {}
    for i, network in enumerate(root(model).networks):
        weights = [np.asarray(weight) for weight in network.weights]
        floats = [weight for weight in weights if weight.dtype.kind == "f"]  # no seeds
        arrays |= {f"network {i} weight {j}": weight for j, weight in enumerate(floats)}
    for i, predictor in enumerate(chain(model)):
        step = f"step {i} {predictor.step!r}"
        arrays[step] = np.empty(0)
        arrays |= {f"{step} {name}": value for name, value in predictor.arrays.items()}
    arrays[f"{root(model).kind} {root(model).num_members}"] = np.empty(0)
    return fingerprint(arrays)


def save(predictor: StepPredictor, path) -> pathlib.Path:
    """Writes the last step of a predictor: `<path>.safetensors` and `<path>.json`.

    Args:
        predictor: what a step's `fit` returned.
        path: of the files, without suffix.

    Returns:
        The path of the JSON file.

    Example:

    >>> knn = posthoc.KNN(k=5).fit(model, (images, labels))
    >>> posthoc.save(knn, "knn").name
    'knn.json'
    >>> posthoc.load("knn", model).score(images).shape
    (40,)
    """
    from safetensors import numpy as safetensors

    if not isinstance(predictor, StepPredictor):
        raise ValueError(
            f"predictor: expected what a post-hoc step's fit returned, received "
            f"{type(predictor).__name__}."
        )
    arrays_path, facts_path = _paths(path)
    arrays = {name: np.array(value, order="C") for name, value in predictor.arrays.items()}
    with files.written_beside(arrays_path) as temporary:
        temporary.write_bytes(safetensors.save(arrays))
    facts = {
        "format": FORMAT,
        "step": type(predictor.step).__name__,
        "arguments": predictor.step.get_config(),
        "arrays": {name: [str(a.dtype), list(a.shape)] for name, a in arrays.items()},
        "sha256": files.sha256(arrays_path),
        "model_sha256": model_sha256(predictor.model),
    }
    files.write_json(facts_path, facts)
    return facts_path


def load(path, model: Predictor) -> StepPredictor:
    """Puts a saved step on the model on which it was fitted.

    Args:
        path: of the files, without suffix.
        model: the model, with the steps that it had when this one was fitted.
    """
    from safetensors import SafetensorError
    from safetensors import numpy as safetensors

    arrays_path, facts_path = _paths(path)
    try:
        facts = files.read_json(facts_path)
        data = arrays_path.read_bytes()
    except (OSError, ValueError) as error:
        raise ValueError(
            f"{facts_path}: expected a saved post-hoc step, received {error}. Save it again."
        ) from None
    if not isinstance(facts, dict) or facts.get("format") != FORMAT:
        raise ValueError(
            f"{facts_path}: expected the format {FORMAT!r}, received "
            f"{facts.get('format') if isinstance(facts, dict) else facts!r}. Save it again."
        )
    if files.sha256(arrays_path) != facts.get("sha256"):
        raise ValueError(
            f"{arrays_path}: expected the sha256 {facts.get('sha256')!r}, received another file. "
            "Get both files again."
        )
    if model_sha256(model) != facts.get("model_sha256"):
        raise ValueError(
            f"model: expected the model on which {facts_path.name} was fitted, received one with "
            "other weights or steps. Fit the step again on this model."
        )
    step = _step(facts, facts_path)
    try:
        arrays = safetensors.load(data)
    except SafetensorError as error:
        raise ValueError(
            f"{arrays_path}: expected safetensors, received {error}. Get the file again."
        ) from None
    return _checked(step.predictor_class(model, step, arrays), arrays_path)


def _step(facts, path) -> Step:
    from s2d_tf import posthoc

    known = {name: getattr(posthoc, name) for name in posthoc.STEPS}
    if facts.get("step") not in known:
        raise ValueError(
            f"{path}: expected a step from {sorted(known)}, received {facts.get('step')!r}."
        )
    try:
        return known[facts["step"]](**facts["arguments"])
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected arguments of {facts['step']}, received others: {error}"
        ) from None


def _checked(predictor, path):
    """The predictor, if its arrays fit the step and the model: tried on one example of zeros."""
    for name, array in predictor.arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ValueError(f"{path}: expected finite numbers, received others in {name!r}.")
    network = root(predictor)
    try:
        width = network.last_layer.kernel.shape[-2] if predictor.step.reads_features else 1
        members = tf.zeros([predictor.model.num_members, 1, network.num_classes])
        state = State(network.kind, members, tf.zeros([1, width]))
        for name in [p.step.name for p in chain(predictor.model) if p.step.name]:
            state.outputs[name] = tf.zeros([1])
        predictor.step.apply(predictor._tensors, state)
        state.values()
    except (KeyError, TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
        raise ValueError(
            f"{path}: expected arrays of {predictor.step!r}, received others: {error}"
        ) from None
    return predictor


def _paths(path):
    path = pathlib.Path(path)
    return path.with_name(path.name + ARRAYS), path.with_name(path.name + FACTS)
