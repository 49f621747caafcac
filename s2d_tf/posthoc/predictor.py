"""The predictor that comes of a fitted step, and how a batch goes through a chain of them."""

from __future__ import annotations

import functools
import hashlib
import types
import typing
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf._types import Data, Inputs, TensorLike
from s2d_tf.models import Predictor
from s2d_tf.models.answers import Answers
from s2d_tf.models.wrapper import Wrapper
from s2d_tf.posthoc import outputs as outputs_lib
from s2d_tf.posthoc.outputs import Outputs

if TYPE_CHECKING:
    from s2d_tf.models.contract import Contract
    from s2d_tf.posthoc.step import Step


class State:
    """One batch on its way through the steps: steps read it, and add to it or change its members.

    `features` is `None` where no step reads them.
    """

    def __init__(
        self, kind: str, member_logits: TensorLike, features: TensorLike | None = None
    ) -> None:
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

    def values(self) -> dict[str, tf.Tensor]:
        """All that `predict_uncertainty` gives."""
        return {**self.uncertainty, **self.outputs}


class StepPredictor(Wrapper):
    """A model with one more post-hoc step.

    `predict_uncertainty` has the step's output as an additional key. All predictions also take
    `Outputs` of the network. `arrays` is what was fitted.

    Example:

    >>> scaled = posthoc.TemperatureScaling().fit(model, (images, labels))
    >>> isinstance(scaled, posthoc.StepPredictor), sorted(scaled.arrays)
    (True, ['bias', 'kernel'])
    """

    provenance: typing.Mapping = types.MappingProxyType({})
    """Where a saved step comes from."""

    def __init__(
        self, model: Predictor, step: Step, fitted: dict[str, np.ndarray], **kwargs: Any
    ) -> None:
        super().__init__(model, **kwargs)
        # Unseen by Keras' tracking: none of it is trained.
        object.__setattr__(self, "step", step)
        arrays = {name: np.asarray(value) for name, value in fitted.items()}
        arrays = {name: _single(value) if value.ndim else value for name, value in arrays.items()}
        object.__setattr__(self, "arrays", arrays)
        with tf.init_scope():
            tensors = {name: tf.constant(_single(value)) for name, value in arrays.items()}
        object.__setattr__(self, "_tensors", tensors)

    def on(self, model: Predictor) -> StepPredictor:
        """The same fitted step on another predictor of the same network."""
        made = type(self)(model, self.step, self.arrays)
        object.__setattr__(made, "provenance", self.provenance)
        return made

    @property
    def contract(self) -> Contract:  # type: ignore[override]
        return self.model.contract

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.step.num_members(self.model)

    @property
    def parts(self) -> list[Predictor]:
        return [self] if self.step.changes_members else self.model.parts

    @property
    def draw_key(self) -> tuple:
        return (*self.model.draw_key, repr(self.step), fingerprint(self.arrays))

    def features(self, inputs: Inputs) -> tf.Tensor:
        return self.model.features(inputs)

    def state(self, inputs: Inputs) -> State:
        """A batch after all steps; traceable."""
        network = root(self)
        found = outputs_lib.forward(network, inputs, reads_features(self))
        return advance(self, State(network.kind, **found))

    def member_logits(self, images: Inputs) -> tf.Tensor:
        return self.state(images).member_logits

    def served_outputs(self, images: Inputs) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Member logits, and what the steps add to an exported model's answers."""
        state = self.state(images)
        steps = [predictor.step for predictor in chain(self) if predictor.step.served]
        return state.member_logits, {step.served: state.outputs[step.name] for step in steps}

    def predict_members(self, x: Data, batch_size: int = 256) -> tuple[str, np.ndarray]:
        if not isinstance(x, Outputs):
            return super().predict_members(x, batch_size)
        blocks = states(self, x, reads_features(self), batch_size)
        return self.kind, np.concatenate([s.member_logits.numpy() for s, _ in blocks], axis=1)

    def predict_uncertainty(self, x: Data, batch_size: int = 256) -> Answers:
        if not isinstance(x, Outputs):
            return super().predict_uncertainty(x, batch_size)
        blocks = [
            {name: value.numpy() for name, value in state.values().items()}
            for state, _ in states(self, x, reads_features(self), batch_size)
        ]
        found = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        return Answers(found, self.class_names)

    def predict_output(self, inputs: Data, batch_size: int = 256) -> np.ndarray:
        """The step's own output for inputs or `Outputs`."""
        if isinstance(inputs, Outputs):
            blocks = states(self, inputs, reads_features(self), batch_size)
            return np.concatenate([state.outputs[self.step.name].numpy() for state, _ in blocks])
        batches = self._map_batches("_output", inputs, batch_size)
        return np.concatenate([batch["value"] for batch in batches])

    def _uncertainty(self, images):
        return self.state(images).values()

    def _output(self, images):
        return self.state(images).outputs[self.step.name]


def root(model: Predictor) -> Predictor:
    """The network inside all steps."""
    while isinstance(model, StepPredictor):
        model = model.model
    return model


def chain(model: Predictor) -> list[StepPredictor]:
    """The predictors of a model's steps, in the order in which they run."""
    found = []
    while isinstance(model, StepPredictor):
        found.append(model)
        model = model.model
    return found[::-1]


def reads_features(model: Predictor) -> bool:
    return any(predictor.step.reads_features for predictor in chain(model))


def advance(model: Predictor, state: State) -> State:
    """Runs all steps of a model on a batch."""
    for predictor in chain(model):
        predictor.step.apply(predictor._tensors, state)
    return state


def states(
    model: Predictor, data: Data, features: bool, batch_size: int, rows: int = outputs_lib.ROWS
) -> Iterator[tuple[State, np.ndarray | None]]:
    """States of a model after its steps, and labels, block by block."""
    network = root(model)
    features = features or reads_features(model)
    for block in outputs_lib.read(network, data, features, batch_size, rows):
        yield advance(model, State(network.kind, block.member_logits, block.features)), block.labels


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
