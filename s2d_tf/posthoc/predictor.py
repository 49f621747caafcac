"""Predictors with fitted steps: how a batch, or cached outputs of the network, go through them."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf._types import Data, Inputs
from s2d_tf.models import Predictor
from s2d_tf.models.contract import require
from s2d_tf.models.inputs import warn_unknown
from s2d_tf.models.predictor import WrappedPredictor

if TYPE_CHECKING:
    from s2d_tf.posthoc.step import Step

ROWS = 1024
"""Cached examples that are scored at once: KNN and FeatureDensity take 200 MB for them."""


@dataclasses.dataclass(frozen=True)
class Outputs:
    """Cached outputs of a network, which fits and predictions take in place of inputs.

    A post-hoc predictor applies all of its steps to them, so they are those of the network itself.

    Args:
        member_logits: `[members, n, classes]`, or `[n, classes]` for one member.
        features: `[n, d]`; `None` where no step reads them.
        labels: `[n]` class indices, where they are known.

    Example:

    >>> outputs = posthoc.collect(model, (images, labels))
    >>> knn = posthoc.KNN(k=5).fit(model, outputs)
    >>> knn.score(outputs).shape
    (40,)
    """

    member_logits: np.ndarray
    features: np.ndarray | None = None
    labels: np.ndarray | None = None

    def __post_init__(self) -> None:
        members = np.asarray(self.member_logits, np.float32)
        members = members[None] if members.ndim == 2 else members
        require(
            members.ndim == 3,
            "member_logits: expected the shape [members, n, classes] or [n, classes], "
            f"received {members.shape}. Put the members first.",
        )
        object.__setattr__(self, "member_logits", members)
        for name in ("features", "labels"):
            values = getattr(self, name)
            count = len(self) if values is None else len(values)
            require(
                count == len(self),
                f"{name}: expected {len(self)} rows as in member_logits, received {count}. Pass "
                "values of the same examples.",
            )

    def __len__(self) -> int:
        return self.member_logits.shape[1]

    def rows(self, start: int, stop: int) -> Outputs:
        """A slice of the examples."""
        part = slice(start, stop)
        others = (None if v is None else v[part] for v in (self.features, self.labels))
        return Outputs(self.member_logits[:, part], *others)

    def blocks(self, network: Predictor, features: bool) -> Iterator[Outputs]:
        """Slices of the examples, if these are outputs of the network with all it needs."""
        expected = (network.num_members, len(self), network.num_classes)
        require(
            self.member_logits.shape == expected and len(self),
            f"data: expected outputs of this network with member_logits of shape {expected}, "
            f"received {self.member_logits.shape}. Collect them from this network.",
        )
        require(
            not features or self.features is not None,
            "data: expected outputs with features, received ones without. Collect them with "
            "features=True.",
        )
        return (self.rows(i, i + ROWS) for i in range(0, len(self), ROWS))


class State:
    """One batch on its way through the steps: steps read it, and add to it or change its members.

    `features` is `None` where no step reads them.

    Example:

    >>> state = posthoc.State("categorical", tf.zeros([1, 2, 3]))
    >>> state.uncertainty["probs"].shape
    TensorShape([2, 3])
    """

    def __init__(self, kind: str, member_logits: Any, features: Any = None) -> None:
        self.kind = kind
        self.member_logits = tf.convert_to_tensor(member_logits)
        self.features: Any = None if features is None else tf.convert_to_tensor(features)
        self.outputs: dict[str, tf.Tensor] = {}

    @functools.cached_property
    def uncertainty(self) -> dict[str, tf.Tensor]:
        """Probabilities and uncertainties of the members, as `uncertainty.from_members`."""
        return uncertainty.from_members(self.kind, self.member_logits)

    def set_members(self, member_logits: tf.Tensor) -> None:
        self.member_logits = member_logits
        self.__dict__.pop("uncertainty", None)

    def set_means(self, logits: tf.Tensor) -> None:
        """Gives members the mean `softmax(logits)`; a Dirichlet keeps its total concentration."""
        if self.kind == "dirichlet":
            log_totals = self.member_logits - tf.nn.log_softmax(self.member_logits, axis=-1)
            logits = tf.nn.log_softmax(logits, axis=-1) + log_totals[..., :1]
        self.set_members(logits)

    def values(self) -> dict[str, tf.Tensor]:
        """All that `predict_uncertainty` gives."""
        return {**self.uncertainty, **self.outputs}


class StepPredictor(WrappedPredictor):
    """A model with one more post-hoc step.

    `predict_uncertainty` has the step's output as an additional key. All predictions also take
    `Outputs` of the network. `arrays` is what was fitted, `provenance` where a saved step comes
    from.

    Example:

    >>> scaled = posthoc.TemperatureScaling().fit(model, (images, labels))
    >>> isinstance(scaled, posthoc.StepPredictor), sorted(scaled.arrays)
    (True, ['bias', 'kernel'])
    """

    def __init__(
        self,
        model: Predictor,
        step: Step,
        fitted: dict[str, np.ndarray],
        provenance: Mapping = types.MappingProxyType({}),
    ) -> None:
        super().__init__(model)
        self.kind = step.makes or model.kind
        arrays = {name: np.asarray(value) for name, value in fitted.items()}
        with tf.init_scope():
            tensors = {name: tf.constant(_single(value)) for name, value in arrays.items()}
        own = {
            "step": step,
            "arrays": {name: _single(v) if v.ndim else v for name, v in arrays.items()},
            "tensors": tensors,
            "provenance": provenance,
        }
        for name, value in own.items():  # unseen by Keras' tracking: none of it is trained
            object.__setattr__(self, name, value)

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.step.num_members(self.model)

    @property
    def cached_predictors(self) -> list[Predictor]:
        return [self] if self.step.changes_members else self.model.cached_predictors

    @property
    def member_settings(self) -> tuple:
        return (*self.model.member_settings, repr(self.step), fingerprint(self.arrays))

    def features(self, inputs: Inputs) -> tf.Tensor:
        return self.model.features(inputs)

    def member_logits(self, inputs: Inputs | Outputs) -> tf.Tensor:
        return after_steps(self, inputs).member_logits

    def served_outputs(self, inputs: Inputs) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Member logits, and what the steps add to an exported model's answers."""
        state = after_steps(self, inputs)
        steps = [each.step for each in chain(self) if each.step.served]
        return state.member_logits, {step.served: state.outputs[step.name] for step in steps}

    def predict_output(self, inputs: Data, batch_size: int = 256) -> np.ndarray:
        """The step's own output: scores, sets, or whether to abstain.

        Args:
            inputs: as for `predict_uncertainty`, or `Outputs` of the network.
            batch_size: how many inputs to hold at once; it does not change the result.
        """
        found = [batch["value"] for batch, _ in self.map_batches("_output", inputs, batch_size)]
        return np.concatenate(found)

    def uncertainties(self, inputs: Inputs | Outputs) -> dict[str, tf.Tensor]:
        return after_steps(self, inputs).values()

    def _output(self, inputs):
        return {"value": after_steps(self, inputs).outputs[self.step.name]}

    def map_batches(self, name: str, x: Data, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(x, Outputs):
            yield from super().map_batches(name, x, *args, **kwargs)
            return
        for block in x.blocks(root(self), reads_features(self)):
            found = getattr(self, name)(block)
            found = found if isinstance(found, dict) else {"value": found}
            yield {key: value.numpy() for key, value in found.items()}, block.labels


def root(model: Predictor) -> Predictor:
    """The network inside all steps.

    Example:

    >>> posthoc.root(posthoc.MSP().fit(model)) is model
    True
    """
    return model if not isinstance(model, StepPredictor) else root(model.model)


def chain(model: Predictor) -> list[StepPredictor]:
    """The predictors of a model's steps, in the order in which they run.

    Example:

    >>> [each.step.name for each in posthoc.chain(posthoc.MSP().fit(model))]
    ['msp']
    """
    return [*chain(model.model), model] if isinstance(model, StepPredictor) else []


def reads_features(model: Predictor) -> bool:
    return any(each.step.reads_features for each in chain(model))


def after_steps(model: Predictor, inputs: Inputs | Outputs) -> State:
    """A batch, or some cached outputs, after all steps of a model; traceable."""
    network = root(model)
    if isinstance(inputs, Outputs):
        state = State(network.kind, inputs.member_logits, inputs.features)
    else:
        state = State(network.kind, **_forward(network, reads_features(model), inputs))
    for each in chain(model):
        each.step.apply(each.tensors, state)
    return state


def read(
    network: Predictor, data: Data, features: bool, batch_size: int, learn: bool = False
) -> Iterator[Outputs]:
    """Outputs of a network, batch by batch, so that memory does not grow with the data."""
    name = "outputs_and_features" if features else "outputs"
    forward = functools.partial(_forward, network, features)
    for found, labels in network.map_batches(name, data, batch_size, forward, learn):
        yield Outputs(**found, labels=None if labels is None else np.asarray(labels))


def collect(model: Predictor, data: Data, features: bool = True, batch_size: int = 256) -> Outputs:
    """Runs a network over all data and keeps what post-hoc steps read.

    The data is there to be fitted, so that a model without a range learns it.

    Args:
        model: a predictor; of one with post-hoc steps the network inside is run.
        data: `(inputs, labels)`, inputs alone, or a `tf.data.Dataset` of either.
        features: whether to keep feature vectors; only single networks have them.
        batch_size: how many inputs to hold at once.

    Example:

    >>> outputs = posthoc.collect(model, (images, labels))
    >>> outputs.member_logits.shape, outputs.features.shape
    ((1, 40, 3), (40, 8))
    """
    warn_unknown(root(model))
    parts = list(read(root(model), data, features, batch_size, learn=True))
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("features", "labels")
        if getattr(parts[0], name) is not None
    }
    return Outputs(np.concatenate([part.member_logits for part in parts], axis=1), **joined)


def linear_head(network: Predictor) -> dict[str, tf.Tensor]:
    """`{"kernel": [d, classes], "bias": [classes]}` of a network's only linear head.

    Example:

    >>> posthoc.linear_head(model)["kernel"].shape
    TensorShape([8, 3])
    """
    kernel = tf.cast(network.last_layer.kernel, tf.float32)
    if kernel.shape.rank == 3:
        require(
            kernel.shape[0] == 1,
            f"model: expected a network with one head, received one with {kernel.shape[0]}. "
            "Use a step that does not read the head, such as KNN.",
        )
        kernel = kernel[0]
    bias = getattr(network.last_layer, "bias", None)
    bias = tf.zeros(kernel.shape[-1:]) if bias is None else tf.cast(bias, tf.float32)
    return {"kernel": kernel, "bias": tf.reshape(bias, kernel.shape[-1:])}


def _forward(network, features, inputs):
    """Member logits and, if requested, features of one batch, in one pass; traceable."""
    if not features:
        return {"member_logits": tf.cast(network.member_logits(inputs), tf.float32)}
    vectors = tf.cast(network.features(inputs), tf.float32)
    if network.num_members == 1:
        head = linear_head(network)
        members = (tf.matmul(vectors, head["kernel"]) + head["bias"])[None]
    else:
        members = tf.cast(network.member_logits(inputs), tf.float32)
    return {"member_logits": members, "features": vectors}


def fingerprint(arrays: dict[str, np.ndarray]) -> str:
    """Hex digest of named arrays."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _single(value):
    return value.astype(np.float32) if value.dtype.kind == "f" else value
