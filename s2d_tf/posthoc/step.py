"""A post-hoc step: what is fitted on a trained model, and the predictor that comes of it."""

import functools
import hashlib
import inspect
from collections.abc import Iterator

import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf.models import Predictor
from s2d_tf.posthoc import checks
from s2d_tf.posthoc import outputs as outputs_lib
from s2d_tf.posthoc.outputs import Outputs

MAX_EXAMPLES = 50_000
"""Feature vectors that a fit holds at once; of more, a random part is used."""


class State:
    """One batch on its way through the steps: steps read it, and add to it or change its members.

    `features` is `None` where no step reads them.
    """

    def __init__(self, kind: str, member_logits, features=None):
        self.kind = kind
        self.member_logits = tf.convert_to_tensor(member_logits)
        self.features = None if features is None else tf.convert_to_tensor(features)
        self.outputs = {}

    @functools.cached_property
    def uncertainty(self) -> dict[str, tf.Tensor]:
        """Probabilities and uncertainties of the members, as `uncertainty.from_members`."""
        return uncertainty.from_members(self.kind, self.member_logits)

    def set_members(self, member_logits) -> None:
        self.member_logits = member_logits
        self.__dict__.pop("uncertainty", None)

    def values(self) -> dict[str, tf.Tensor]:
        """All that `predict_uncertainty` gives."""
        return {**self.uncertainty, **self.outputs}


class Step:
    """Base of everything that is fitted on a trained model.

    A subclass has one attribute for each argument of its constructor, and defines `estimate`, which
    gives the fitted arrays, and `apply`, which uses them on a batch in elementary operations.

    Args:
        name: the key of the output that the step adds; default: the step's own.
    """

    output: str | None = None
    """Default key of the added output; `None` where the step changes the members only."""
    served: str | None = None
    """The output's name in an exported model."""
    needs_data = True
    reads_features = False
    changes_members = False

    def __init__(self, name: str | None = None):
        self.name = name or self.output

    def fit(self, model: Predictor, data=None, batch_size: int = 256) -> "StepPredictor":
        """Fits the step and returns a predictor that wraps the model.

        Args:
            model: any predictor, also one with other steps.
            data: `(inputs, labels)`, a `tf.data.Dataset` of such pairs, or `Outputs` of the
                network; `None` where nothing is fitted.
            batch_size: how many inputs to hold at once; it does not change the result.
        """
        checks.predictor(model)
        taken = {predictor.step.name for predictor in chain(model)} - {None}
        if self.name in taken | {"probs", "confidence", "total", "data", "knowledge"}:
            raise ValueError(
                f"name: expected a key that the model does not have, received {self.name!r}. Pass "
                f"another name to {type(self).__name__}."
            )
        if data is None and self.needs_data:
            raise ValueError(
                f"data: expected (inputs, labels) to fit {type(self).__name__}, received None."
            )
        self.check_model(model)
        return self.predictor_class(model, self, self.estimate(Source(model, data, batch_size)))

    def check_model(self, model: Predictor) -> None:
        """Raises a `ValueError` where the step cannot be fitted on a model."""
        if self.reads_features:
            _ = root(model).last_layer  # of several members: an error that names them

    def num_members(self, model: Predictor) -> int:
        return model.num_members

    def estimate(self, source: "Source") -> dict[str, np.ndarray]:
        """The fitted arrays."""
        return {}

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        """Adds this step's output to a batch, or changes its members; traceable."""
        raise NotImplementedError

    def get_config(self) -> dict:
        """The constructor's arguments."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def __repr__(self):
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


class StepPredictor(Predictor):
    """A model with one more post-hoc step.

    `predict_uncertainty` has the step's output as an additional key; it also takes `Outputs`.
    """

    def __init__(self, model: Predictor, step: Step, fitted: dict[str, np.ndarray], **kwargs):
        super().__init__(**kwargs)
        self.model = model
        for name in ("kind", "num_classes", "image_shape", "class_names", "metadata"):
            setattr(self, name, getattr(model, name))
        # Unseen by Keras' tracking: none of it is trained.
        object.__setattr__(self, "step", step)
        object.__setattr__(self, "arrays", {k: np.asarray(v) for k, v in fitted.items()})
        with tf.init_scope():
            tensors = {name: tf.constant(_single(value)) for name, value in self.arrays.items()}
        object.__setattr__(self, "_tensors", tensors)
        self.built = True

    @property
    def num_members(self):
        return self.step.num_members(self.model)

    @property
    def num_parameters(self):
        return self.model.num_parameters

    @property
    def networks(self):
        return self.model.networks

    @property
    def parts(self):
        return [self] if self.step.changes_members else self.model.parts

    @property
    def draw_key(self):
        return (*self.model.draw_key, repr(self.step), fingerprint(self.arrays))

    @property
    def last_layer(self):
        return self.model.last_layer

    def features(self, inputs):
        return self.model.features(inputs)

    def state(self, inputs) -> State:
        """A batch after all steps; traceable."""
        network = root(self)
        found = outputs_lib.forward(network, inputs, reads_features(self))
        return advance(self, State(network.kind, **found))

    def member_logits(self, images):
        return self.state(images).member_logits

    def served_outputs(self, images) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Member logits, and what the steps add to an exported model's answers."""
        state = self.state(images)
        steps = [predictor.step for predictor in chain(self) if predictor.step.served]
        return state.member_logits, {step.served: state.outputs[step.name] for step in steps}

    def predict_uncertainty(self, x, batch_size: int = 256) -> dict[str, np.ndarray]:
        if not isinstance(x, Outputs):
            return super().predict_uncertainty(x, batch_size)
        blocks = [
            {name: value.numpy() for name, value in state.values().items()}
            for state, _ in states(self, x, reads_features(self), batch_size)
        ]
        return {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}

    def predict_output(self, inputs, batch_size: int = 256) -> np.ndarray:
        """The step's own output for inputs or `Outputs`."""
        if isinstance(inputs, Outputs):
            blocks = states(self, inputs, reads_features(self), batch_size)
            return np.concatenate([state.outputs[self.step.name].numpy() for state, _ in blocks])
        return np.concatenate(list(self._map_batches(self._output, inputs, batch_size)))

    def _uncertainty(self, images):
        return self.state(images).values()

    def _output(self, images):
        return self.state(images).outputs[self.step.name]


Step.predictor_class = StepPredictor


class Source:
    """The data of a fit, as the model predicts it; read block by block."""

    def __init__(self, model: Predictor, data, batch_size: int):
        self.model = model
        self.data = data
        self.batch_size = batch_size

    def blocks(self, features: bool = False) -> Iterator[tuple[State, np.ndarray | None]]:
        """States of the model before the step that is fitted, and labels."""
        # Few large blocks are faster, but only without steps that need memory for each example.
        rows = outputs_lib.ROWS if chain(self.model) else outputs_lib.FIT_ROWS
        return states(self.model, self.data, features, self.batch_size, rows)

    def gather(self, *names: str) -> dict[str, np.ndarray]:
        """All labels, and values of all examples by their key, or `member_logits`."""
        found = {name: [] for name in (*names, "labels")}
        for state, labels in self.blocks():
            for name in names:
                value = state.member_logits if name == "member_logits" else state.values()[name]
                found[name].append(value.numpy())
            found["labels"].append(self.labels(labels, state))
        axes = {"member_logits": 1}
        return {name: np.concatenate(found[name], axis=axes.get(name, 0)) for name in found}

    def labels(self, labels, state: State) -> np.ndarray:
        """Checked labels of one block."""
        return checks.labels(labels, state.member_logits.shape[1], self.model.num_classes)

    def sample_features(self, seed: int, size: int = MAX_EXAMPLES) -> np.ndarray:
        """Feature vectors of all examples, or of `size` random ones."""
        vectors = (state.features.numpy() for state, _ in self.blocks(features=True))
        return checks.finite(outputs_lib.sample(vectors, size, seed), "features")

    def head(self) -> dict[str, np.ndarray]:
        """The network's linear head, `{"kernel": [d, classes], "bias": [classes]}`."""
        kernel, bias = outputs_lib.linear_head(root(self.model))
        return {"kernel": kernel.numpy(), "bias": bias.numpy()}


def collect(model: Predictor, data, features: bool = True, batch_size: int = 256) -> Outputs:
    """Runs a network over all data and keeps what post-hoc steps read.

    Args:
        model: a predictor; of one with post-hoc steps the network inside is run.
        data: `(inputs, labels)`, inputs alone, or a `tf.data.Dataset` of either.
        features: whether to keep feature vectors; only single networks have them.
        batch_size: how many inputs to hold at once.
    """
    parts = list(outputs_lib.read(root(model), data, features, batch_size))
    joined = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("features", "labels")
        if getattr(parts[0], name) is not None
    }
    return Outputs(np.concatenate([part.member_logits for part in parts], axis=1), **joined)


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
    model: Predictor, data, features: bool, batch_size: int, rows: int = outputs_lib.ROWS
) -> Iterator[tuple[State, np.ndarray]]:
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
