"""A post-hoc step: what is fitted on a trained model."""

from __future__ import annotations

import inspect
import re
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf._types import Data
from s2d_tf.models import Predictor
from s2d_tf.posthoc import checks
from s2d_tf.posthoc.predictor import State, StepPredictor, chain, root
from s2d_tf.posthoc.source import Source

NAME = re.compile(r"[A-Za-z0-9_]{1,64}")
"""Outputs are keys of metrics and names of files."""


class Step:
    """Base of everything that is fitted on a trained model.

    A subclass has one attribute for each argument of its constructor, and defines `estimate`, which
    gives the fitted arrays, and `apply`, which uses them on a batch in elementary operations.

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
        checks.predictor(model)
        self.check_name(model)
        if data is None and self.needs_data:
            raise ValueError(
                f"data: expected (inputs, labels) to fit {type(self).__name__}, received None. "
                "Pass data."
            )
        self.check_model(model)
        return self.predictor_class(model, self, self.estimate(Source(model, data, batch_size)))

    def check_name(self, model: Predictor) -> None:
        """Raises a `ValueError` where the step's key is none, or one that the model has."""
        taken = {"probs", "confidence", "total", "data", "knowledge"}
        taken |= {predictor.step.name for predictor in chain(model)} - {None}
        plain = isinstance(self.name, str) and NAME.fullmatch(self.name)
        if self.name is not None and (not plain or self.name in taken):
            raise ValueError(
                f"name: expected letters, digits and _, and a key that the model does not have, "
                f"received {self.name!r:.80}. Pass another name to {type(self).__name__}."
            )

    def check_model(self, model: Predictor) -> None:
        """Raises a `ValueError` where the step cannot be fitted on a model."""
        if self.reads_features:
            _ = root(model).last_layer  # of several members: an error that names them

    def num_members(self, model: Predictor) -> int:
        return model.num_members

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
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
