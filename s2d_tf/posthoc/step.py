"""Steps: what is fitted on a trained model, and by which name it is found."""

from __future__ import annotations

import difflib
import inspect
import re
from typing import Any

import tensorflow as tf

from s2d_tf._types import Data
from s2d_tf.models import Predictor
from s2d_tf.posthoc.fitting import FitData
from s2d_tf.posthoc.predictor import State, StepPredictor, chain, root

NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
"""Outputs are keys of metrics and names of files."""

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
            data: `(inputs, labels)`, a `tf.data.Dataset` of such pairs, or `Outputs` of the
                network; `None` where nothing is fitted.
            batch_size: how many inputs to hold at once; it does not change the result.
        """
        if not isinstance(model, Predictor):
            raise ValueError(
                f"model: expected a models.Predictor, received {type(model).__name__}. Cast a "
                "Keras classifier with models.S2DClassifier.from_classifier."
            )
        if data is None and self.needs_data:
            raise ValueError(
                f"data: expected (inputs, labels) to fit {type(self).__name__}, received None. "
                "Pass data."
            )
        self.check(model)
        return self.predictor_class(model, self, self.estimate(FitData(model, data, batch_size)))

    def check(self, model: Predictor) -> None:
        """Raises a `ValueError` where the step cannot be fitted on a model."""
        taken = {"probs", "label", "confidence", "total", "data", "knowledge"}
        taken |= {each.step.name for each in chain(model)} - {None}
        plain = isinstance(self.name, str) and NAME.fullmatch(self.name)
        if self.name is not None and (not plain or self.name in taken):
            raise ValueError(
                f"name: expected letters, digits and _, and a key that the model does not have, "
                f"received {self.name!r:.80}. Pass another name to {type(self).__name__}."
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
        listed = ", ".join(known[each] for each in near)
        raise ValueError(
            f"step: expected one such as {listed}, received {name!r}. Correct the name."
        )
    return _STEPS[known[wanted]]
