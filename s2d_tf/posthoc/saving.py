"""A fitted step as one safetensors file: its arrays, and its facts as the file's metadata.

The file comes from outside: its facts are checked, and that its arrays fit the step and the model,
before a predictor is made of it. Nothing in it is code.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib

import numpy as np
import tensorflow as tf

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.models import Predictor
from s2d_tf.models.contract import require
from s2d_tf.posthoc.predictor import State, StepPredictor, chain, fingerprint, root
from s2d_tf.posthoc.step import steps

FORMAT = "s2d_tf.posthoc 1"
MAX_BYTES = 2**28
"""KNN with 50,000 vectors of 640 numbers takes half of it."""
MAX_HEADER_BYTES = 2**20
KEY = "step"


class StepError(UserError):
    """A file is not that of a fitted step, or not of one on this model."""


@dataclasses.dataclass(frozen=True)
class Facts:
    """What a file says beside its arrays.

    Attributes:
        format: of the file.
        step: name of the class.
        arguments: of its constructor.
        sha256: digest of the arrays.
        model_sha256: digest of the model on which it was fitted, with its steps.
        provenance: flat facts on the data of the fit.
    """

    format: str
    step: str
    arguments: dict
    sha256: str
    model_sha256: str
    provenance: dict


def model_sha256(model: Predictor) -> str:
    """Hex digest of the weights of a model and of its fitted steps.

    Example:

    >>> len(posthoc.model_sha256(model))
    64
    """
    arrays: dict[str, np.ndarray] = {}
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


def save(predictor: StepPredictor, path: PathLike, provenance: dict | None = None) -> pathlib.Path:
    """Writes the last step of a predictor, whole or not at all.

    Args:
        predictor: what a step's `fit` returned.
        path: of the file, usually `*.safetensors`.
        provenance: texts and numbers to keep with it, such as the data's name and fingerprint;
            default: the predictor's own, if it was loaded.

    Returns:
        The path.

    Example:

    >>> knn = posthoc.KNN(k=5).fit(model, (images, labels))
    >>> posthoc.save(knn, "knn.safetensors").name
    'knn.safetensors'
    >>> posthoc.load("knn.safetensors", model).score(images).shape
    (40,)
    """
    require(
        isinstance(predictor, StepPredictor),
        f"predictor: expected what a post-hoc step's fit returned, received "
        f"{type(predictor).__name__}. Fit a step first.",
    )
    arrays = {name: np.array(value, order="C") for name, value in predictor.arrays.items()}
    facts = Facts(
        format=FORMAT,
        step=type(predictor.step).__name__,
        arguments=predictor.step.get_config(),
        sha256=fingerprint(arrays),
        model_sha256=model_sha256(predictor.model),
        provenance=dict(predictor.provenance if provenance is None else provenance),
    )
    text = json.dumps(dataclasses.asdict(facts), allow_nan=False)
    data = files.pack_arrays(arrays, {KEY: text})
    StepError.unless(
        len(data) <= MAX_BYTES,
        f"{path}: expected at most {MAX_BYTES:,} bytes, received {len(data):,} of "
        f"{predictor.step!r}. Fit it on fewer examples (`max_examples`).",
    )
    files.write_bytes(path, data)
    return pathlib.Path(path)


def load(path: PathLike, model: Predictor) -> StepPredictor:
    """Puts a saved step on the model on which it was fitted.

    Args:
        path: of the file.
        model: the model, with the steps that it had when this one was fitted.

    Returns:
        The predictor that `fit` returned then; `provenance` is what was kept with it.

    Example:

    >>> path = posthoc.save(posthoc.KNN(k=5).fit(model, (images, labels)), "knn.safetensors")
    >>> posthoc.load(path, model).score(images).shape
    (40,)
    """
    return parse(files.read_bytes(path, MAX_BYTES, StepError), model, path)


def parse(data: bytes, model: Predictor, where: PathLike) -> StepPredictor:
    """`load` for the bytes of a file, which errors call `where`.

    Example:

    >>> path = posthoc.save(posthoc.MSP().fit(model), "msp.safetensors")
    >>> posthoc.parse(path.read_bytes(), model, path).step
    MSP(name='msp')
    """
    what = "post-hoc step"
    try:
        arrays, metadata = files.unpack_arrays(data, MAX_HEADER_BYTES)
        values = files.parse_json(metadata[KEY]) if set(metadata) == {KEY} else None
        facts = files.read_record(Facts, values, KEY)
        require(
            facts.format == FORMAT,
            f"expected the format {FORMAT!r}, received {facts.format!r:.80}",
        )
        require(
            facts.sha256 == fingerprint(arrays),
            "expected arrays of the stated sha256, received different arrays",
        )
        StepError.unless(
            facts.model_sha256 == model_sha256(model),
            f"model: expected the model on which {where} was fitted, received one with other "
            "weights or steps. Fit the step again on this model.",
        )
        StepError.unless(
            facts.step in steps(),
            f"{where}: expected a step from {sorted(steps())}, received {facts.step!r:.80}. "
            "Get a newer s2d_tf, or fit the step again.",
        )
        what = facts.step
        # `None` is a default everywhere, also of arguments that a step no longer has.
        step = steps()[what](**{k: v for k, v in facts.arguments.items() if v is not None})
        step.check(model)
        for name, array in arrays.items():
            require(
                array.dtype.name in ("float32", "float64") and np.isfinite(array).all(),
                f"{name[:80]!r}: expected finite floats, received {array.dtype.name} or NaN",
            )
        predictor = step.predictor_class(model, step, arrays, facts.provenance)
        _try(predictor)
    except StepError:
        raise
    # A step that meets arguments or arrays of another step fails in one of many ways.
    except (
        ValueError,
        TypeError,
        AttributeError,
        LookupError,
        RecursionError,
        tf.errors.OpError,
    ) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise StepError(
            f"{where}: expected a fitted {what}, received something else ({reason:.300}). Get the "
            "file again, or fit the step again."
        ) from None
    return predictor


def _try(predictor):
    """Raises an error unless two examples of zeros get answers of the right shapes."""
    network, model, step = root(predictor), predictor.model, predictor.step
    width = network.last_layer.kernel.shape[-2] if step.reads_features else 1
    members = tf.zeros([model.num_members, 2, network.num_classes])
    state = State(model.kind, members, tf.zeros([2, width]))
    for name in [each.step.name for each in chain(model) if each.step.name]:
        state.outputs[name] = tf.zeros([2])
    step.apply(predictor.tensors, state)
    found = state.values()
    expected = step.num_members(model), 2, network.num_classes
    added = found[step.name] if step.name else found["total"]
    require(
        state.member_logits.shape == expected and added.shape in ([2], [2, expected[-1]]),
        f"expected members of shape {expected}, received {state.member_logits.shape} and an "
        f"output of shape {added.shape}",
    )
