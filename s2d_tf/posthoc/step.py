"""Steps: what is fitted on a trained model, on which data, and by which name it is found."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf._types import Data
from s2d_tf.models import Predictor
from s2d_tf.models.contract import require
from s2d_tf.models.inputs import class_numbers
from s2d_tf.posthoc.predictor import (
    Outputs,
    State,
    StepPredictor,
    after_steps,
    chain,
    linear_head,
    read,
    reads_features,
    root,
)

NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
"""Outputs are keys of metrics and names of files."""
MAX_EXAMPLES = 50_000
"""Feature vectors that a fit holds at once; if there are more, it uses a random subset."""

_STEPS: dict[str, type[Step]] = {}


class Step:
    """Base of everything that is fitted on a trained model.

    A subclass has one attribute for each argument of its constructor, and defines `estimate`, which
    gives the fitted arrays, and `apply`, which uses them on a batch in elementary operations. If it
    has a `title`, commands and saved files find it by name.

    Args:
        name: the key of the output that the step adds; default: the step's own.

    Example:

    >>> class Margin(posthoc.Step):
    ...     output = "margin"
    ...     needs_data = False
    ...
    ...     def apply(self, fitted, state):
    ...         largest = tf.math.top_k(state.uncertainty["probs"], k=2).values
    ...         state.outputs[self.name] = largest[:, 0] - largest[:, 1]
    >>> Margin().fit(model).predict_uncertainty(images)["margin"].shape
    (40,)
    """

    title: str
    """Its name in tables."""
    output: str | None = None
    """Default key of the added output; `None` where the step changes the members only."""
    served: str | None = None
    """The output's name in an exported model."""
    predictor_class = StepPredictor
    needs_data = True
    reads_features = False
    changes_members = False
    makes: str | None = None
    """The kind of the members after the step; `None`: as before."""
    held_out = False
    """Whether it is fitted on examples that the network was not trained on."""

    def __init_subclass__(cls) -> None:
        if "title" in vars(cls):
            _STEPS[cls.__name__] = cls

    def __init__(self, name: str | None = None) -> None:
        self.name: Any = name or self.output  # a str, or None as `output`

    def fit(
        self, model: Predictor, data: Data | None = None, batch_size: int = 256
    ) -> StepPredictor:
        """Fits the step and returns a predictor that wraps the model.

        Args:
            model: any predictor, also one with other steps.
            data: `(inputs, labels)`, a dataset of such pairs, or `Outputs`; `None` to fit nothing.
            batch_size: how many inputs to hold at once; it does not change the result.
        """
        require(
            isinstance(model, Predictor),
            f"model: expected a models.Predictor, received {type(model).__name__}. Cast a "
            "Keras classifier with models.S2DClassifier.from_classifier.",
        )
        require(
            data is not None or not self.needs_data,
            f"data: expected (inputs, labels) to fit {type(self).__name__}, received None. "
            "Pass data.",
        )
        self.check(model)
        return self.predictor_class(model, self, self.estimate(FitData(model, data, batch_size)))

    def check(self, model: Predictor) -> None:
        """Raises a `ValueError` where the step cannot be fitted on a model."""
        taken = {"probs", "label", "confidence", "total", "data", "knowledge"}
        taken |= {each.step.name for each in chain(model)} - {None}
        plain = isinstance(self.name, str) and NAME.fullmatch(self.name)
        require(
            self.name is None or (plain and self.name not in taken),
            f"name: expected letters, digits and _, and a key that the model does not have, "
            f"received {self.name!r:.80}. Pass another name to {type(self).__name__}.",
        )
        if self.reads_features:
            _ = root(model).last_layer  # of several members: an error that names them

    def num_members(self, model: Predictor) -> int:
        return model.num_members

    def estimate(self, data: FitData) -> dict[str, Any]:
        """The fitted arrays."""
        return {}

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        """Adds this step's output to a batch, or changes its members; traceable."""
        raise NotImplementedError

    def get_config(self) -> dict:
        """The constructor's arguments."""
        names = inspect.signature(type(self).__init__).parameters
        return {name: getattr(self, name) for name in names if name != "self"}

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.get_config().items())
        return f"{type(self).__name__}({arguments})"


class DetectorPredictor(StepPredictor):
    """A model with a detector."""

    score = StepPredictor.predict_output
    """Scores `[batch]`, larger = more out of distribution."""


class Detector(Step):
    """Base of detectors: a subclass defines `scores`.

    Example:

    >>> class Smallest(posthoc.Detector):
    ...     output = "smallest"
    ...     needs_data = False
    ...
    ...     def scores(self, fitted, state):
    ...         return tf.reduce_min(state.uncertainty["probs"], axis=-1)
    >>> Smallest().fit(model).score(images).shape
    (40,)
    """

    served = "ood_score"
    predictor_class = DetectorPredictor

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        """Scores `[batch]` of one batch, larger = more out of distribution; traceable."""
        raise NotImplementedError

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        state.outputs[self.name] = self.scores(fitted, state)


def steps() -> dict[str, type[Step]]:
    """All steps by the name of their class.

    Example:

    >>> posthoc.steps()["KNN"] is posthoc.KNN
    True
    """
    return dict(_STEPS)


def detectors() -> dict[str, type[Detector]]:
    """All detectors by the key of their score, in the order of tables; without `Uncertainty`.

    Example:

    >>> posthoc.detectors()["relative_mahalanobis"].title
    'Relative Mahalanobis'
    """
    found = (each for each in _STEPS.values() if issubclass(each, Detector))
    return {each.output: each for each in found if each.output}


def step_class(name: str) -> type[Step]:
    """The class of a step, by its own name or by a key such as `knn` or `conformal_sets`.

    Example:

    >>> posthoc.step_class("relative_mahalanobis").__name__
    'RelativeMahalanobis'
    """
    known = {each.lower(): each for each in _STEPS}
    wanted = name.replace("_", "").lower()
    if wanted not in known:
        near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5) or known
        raise ValueError(
            f"step: expected one such as {', '.join(known[each] for each in near)}, received "
            f"{name!r}. Correct the name."
        )
    return _STEPS[known[wanted]]


class FitData:
    """The data of a fit, as the model predicts it before the step; read block by block."""

    def __init__(self, model: Predictor, data: Data, batch_size: int) -> None:
        self.model = model
        self.data = data
        self.batch_size = batch_size

    def states(self, features: bool = False) -> Iterator[tuple[State, Any]]:
        """States of the model and labels, which may be `None`."""
        network, features = root(self.model), features or reads_features(self.model)
        if isinstance(self.data, Outputs):
            blocks = self.data.blocks(network, features)
        else:
            blocks = read(network, self.data, features, self.batch_size, learn=True)
        return ((after_steps(self.model, block), block.labels) for block in blocks)

    def labeled_states(self, features: bool = False) -> Iterator[tuple[State, np.ndarray]]:
        """States of the model and class numbers."""
        num_classes = self.model.num_classes
        for state, labels in self.states(features):
            found = class_numbers(labels, state.member_logits.shape[1], "data")
            outside = found[(found < 0) | (found >= num_classes)]
            if outside.size:
                raise ValueError(
                    f"data: expected labels from 0 to {num_classes - 1}, received {outside[0]}. "
                    "Pass (inputs, labels), without examples of an unknown class."
                )
            yield state, found

    def features(self) -> Iterator[np.ndarray]:
        """Feature vectors `[n, d]`."""
        for state, _ in self.states(features=True):
            yield finite(state.features.numpy(), "features")

    def labeled_features(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Feature vectors `[n, d]` and class numbers `[n]`."""
        for state, labels in self.labeled_states(features=True):
            yield finite(state.features.numpy(), "features"), labels

    def gather(self, function: Callable[[State, np.ndarray], tuple]) -> list[np.ndarray]:
        """Arrays of all examples: what a function gives for a block's state and class numbers."""
        blocks = [function(state, labels) for state, labels in self.labeled_states()]
        return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]

    def head(self) -> dict[str, np.ndarray]:
        """`linear_head` of the network, as arrays."""
        return {name: value.numpy() for name, value in linear_head(root(self.model)).items()}


def sample(blocks: Iterator[np.ndarray], seed: int, size: int) -> np.ndarray:
    """Up to `size` rows of a stream, each with the same chance, in the order of the stream."""
    random = np.random.default_rng(seed)
    kept: list[np.ndarray] = []
    keys = np.empty(0)

    def with_smallest_keys():
        rows = np.concatenate(kept)
        if len(rows) <= size:
            return [rows], keys
        chosen = np.sort(np.argpartition(keys, size)[:size])
        return [rows[chosen]], keys[chosen]

    for block in blocks:
        kept.append(block)
        keys = np.concatenate([keys, random.random(len(block))])
        if len(keys) > 2 * size:
            kept, keys = with_smallest_keys()
    return with_smallest_keys()[0][0]


def finite(values: np.ndarray, name: str) -> np.ndarray:
    """The same array, without NaN and infinity."""
    require(
        np.isfinite(values).all(),
        f"data: expected finite {name}, received NaN or infinity. Check the inputs and the "
        "model's weights.",
    )
    return values


def check_num_examples(count: int, least: int) -> None:
    require(
        count >= least,
        f"data: expected at least {least} examples, received {count}. Add some.",
    )


def check_every_class(counts: np.ndarray) -> None:
    """Raises a `ValueError` where a class has no examples."""
    missing = np.flatnonzero(counts == 0)
    if missing.size:
        raise ValueError(
            f"data: expected examples of each class, received 0 of class {missing[0]} "
            f"({missing.size} classes without). Add examples of these classes."
        )


def fraction(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    require(
        not isinstance(value, bool) and isinstance(value, (int, float)) and (0 < value < 1),
        f"{name}: expected a number between 0 and 1, received {value!r}. Pass a fraction.",
    )
    return float(value)


def positive(value: Any, name: str, kind: type = float) -> Any:
    """A number above 0; `kind=int` for a whole one."""
    allowed, what = (int, "a whole number") if kind is int else ((int, float), "a number")
    require(
        not isinstance(value, bool) and isinstance(value, allowed) and (0 < value < float("inf")),
        f"{name}: expected {what} above 0, received {value!r}. Pass such a number.",
    )
    return kind(value)


def check_score(score: Any, model: Predictor) -> None:
    """Raises a `ValueError` unless a model has a score of that name, larger = more uncertain."""
    # Not the confidence, which is large where the model is certain, nor sets and abstentions.
    own = [each.step for each in chain(model) if each.step.served in (None, "ood_score")]
    names = ["total", "data", "knowledge", *(step.name for step in own if step.name)]
    require(
        score in names,
        f"score: expected one of {names}, received {score!r}. Fit that detector on the model "
        "first.",
    )


def choice(value: Any, name: str, known: Sequence[str]) -> str:
    require(
        value in known,
        f"{name}: expected one of {list(known)}, received {value!r}. Correct it.",
    )
    return value
