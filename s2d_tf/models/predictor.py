"""What everyone needs of a model: its members' predictions and the uncertainties that follow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf._types import Data, Inputs
from s2d_tf.models import inputs
from s2d_tf.models.answers import Answers
from s2d_tf.models.contract import Contract
from s2d_tf.models.overview import overview


class Predictor(keras.Model):
    """A source of member predictions: the one interface that zoo, evaluation and export see.

    A subclass sets `kind`, `num_classes`, `contract` and `num_members` and defines
    `member_logits`. Predictions never depend on the batch that an example came in.

    Example:

    >>> class Uniform(models.Predictor):
    ...     num_classes = 3
    ...     contract = model.contract
    ...
    ...     def member_logits(self, inputs):
    ...         return tf.zeros([1, tf.shape(inputs)[0], 3])
    >>> Uniform().predict_uncertainty(images)["total"].shape
    (40,)
    """

    kind: str = "categorical"
    """What a member predicts: "categorical" (its logits are those of class probabilities) or
    "dirichlet" (its logits are log-concentrations)."""

    num_classes: int
    num_members: int = 1

    contract: Contract
    """What it takes: type, shape and range of each input."""

    inside = "networks"
    """The attribute that holds the single networks of a predictor that is none itself."""

    class_names: list[str] | None = None
    """One name for each class, where they are known; `zoo.load` sets them, `export` keeps them."""

    metadata: dict | None = None
    """Where the model comes from; `zoo.load` sets it, `export` keeps it."""

    @property
    def image_shape(self) -> tuple[int | None, ...] | None:
        """Height, width and channels; `None` where the inputs are not one image."""
        image = self.contract.image
        return None if image is None else image.shape

    @property
    def num_parameters(self) -> int:
        """Trained numbers that a prediction needs; batch-norm statistics do not count."""
        return sum(int(np.prod(weight.shape)) for weight in self.trainable_variables)

    @property
    def decomposes(self) -> bool:
        """Whether uncertainty splits into data and knowledge; see `uncertainty.decomposes`."""
        return uncertainty.decomposes(self.kind, self.num_members)

    @property
    def networks(self) -> list[keras.Model]:
        """The models whose weights are stored, one file each, in order."""
        return [self]

    @property
    def parts(self) -> list[Predictor]:
        """The predictors whose raw outputs are cached separately; their members in order are
        this predictor's."""
        return [self]

    @property
    def draw_key(self) -> tuple:
        """All that decides the members beside the weights and the inputs."""
        layers = self._flatten_layers()
        seeds = [
            layer.seed for layer in layers if hasattr(layer, "seed") and hasattr(layer, "rate")
        ]
        name = type(self).__name__
        return name, self.kind, self.num_members, getattr(self, "seed", 0), seeds

    @property
    def readings(self) -> dict[str, Callable]:
        """Other members that the same raw outputs give, by name: functions like
        `members_from_raw`. A Gaussian student is read by its draws and by its "mean"."""
        return {}

    @property
    def last_layer(self) -> keras.layers.Layer:
        """The linear head of a single network."""
        raise self._not_a_network("last_layer")

    def features(self, inputs: Inputs) -> tf.Tensor:
        """Feature vectors `[batch, d]` of a single network, which its `last_layer` takes."""
        raise self._not_a_network("features")

    def __dir__(self) -> list[str]:
        # Keras walks all attributes when it saves a model, and these hold the model itself.
        return [name for name in super().__dir__() if name not in ("networks", "parts")]

    def _not_a_network(self, name):
        return ValueError(
            f"{name}: expected a single network, received {type(self).__name__}, which has several "
            f"members. Use `{name}` of its `{self.inside}`."
        )

    def member_logits(self, inputs: Inputs) -> tf.Tensor:
        """Member predictions `[members, batch, classes]` for a batch.

        Deterministic, and traceable in a `tf.function`.
        """
        raise NotImplementedError

    def call(self, inputs: Inputs) -> Any:
        return self.member_logits(inputs)

    def raw_outputs(self, inputs: Inputs) -> tf.Tensor:
        """What a cache keeps, `[outputs, batch, classes]`: `members_from_raw` gives the members."""
        return self.member_logits(inputs)

    def members_from_raw(self, raw: tf.Tensor) -> tf.Tensor:
        """Member predictions `[members, batch, classes]` from `raw_outputs`."""
        return raw

    def served_outputs(self, inputs: Inputs) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        """Member predictions, and what an exported model answers beside those that follow from
        them; post-hoc steps add `ood_score`, `prediction_set` and `abstain`."""
        return self.member_logits(inputs), {}

    def predict_members(self, x: Data, batch_size: int = 256) -> tuple[str, np.ndarray]:
        """The kind of prediction and the stack of all members' logits.

        Args:
            x: inputs as arrays, nested as the model takes them (images: `[n, height, width,
                channels]`); or anything else that `fit` takes: a `tf.data.Dataset` of inputs or of
                `(inputs, ...)`, batched or not, a `PyDataset`, a generator, a loader. Inputs that
                are clearly outside of the model's range give one warning.
            batch_size: how many examples to hold at once; it does not change the predictions.

        Returns:
            `(kind, logits)`, `logits` a float32 array `[members, n, classes]`.
        """
        return self.kind, self._predict_stack("member_logits", x, batch_size)

    def predict_raw(self, x: Data, batch_size: int = 256) -> np.ndarray:
        """`raw_outputs` of all examples as one array; arguments as for `predict_members`."""
        return self._predict_stack("raw_outputs", x, batch_size)

    def predict_uncertainty(self, x: Data, batch_size: int = 256) -> Answers:
        """Class probabilities, and how uncertain they are, from data or from lack of knowledge.

        Args:
            x, batch_size: as for `predict_members`.

        Returns:
            Dict of arrays: `probs` `[n, classes]` and, for each example, `confidence` (the largest
            probability), `total`, `data` and `knowledge` uncertainty in nats. It prints as a table,
            and its `plot` draws inputs with their uncertainties.
        """
        first, *others = self._map_batches("_uncertainty", x, batch_size)
        if others:
            first = {key: np.concatenate([first[key], *(b[key] for b in others)]) for key in first}
        return Answers(first, self.class_names)

    def summary(
        self,
        line_length: int | None = None,
        positions: list[float] | None = None,
        print_fn: Callable | None = None,
        **kwargs: object,
    ) -> None:
        """Keras' `summary`, after a few lines on what the model takes, predicts and learns from."""
        (print_fn or print)(overview(self))
        super().summary(line_length, positions, print_fn, **kwargs)

    def check_fitted(self) -> None:
        """Raises a `ValueError` where a layer still has to be fitted to images."""
        if self.__dict__.get("_fitted"):  # What is fitted stays so, and the layers are many.
            return
        for layer in self._flatten_layers():
            if not getattr(layer, "fitted", True):
                raise ValueError(
                    f"model: expected fitted layers, received {layer.name!r}, which is not fitted. "
                    "Call model.adapt(images), fit the model, or load weights."
                )
        self.__dict__["_fitted"] = True

    def _uncertainty(self, inputs):
        return uncertainty.from_members(self.kind, self.member_logits(inputs))

    def _predict_stack(self, method, x, batch_size):
        batches = self._map_batches(method, x, batch_size)
        return np.concatenate([batch["value"] for batch in batches], axis=1)

    def _map_batches(
        self, method: str, x: Data, batch_size: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Streams a method over the inputs, so that memory does not grow with their number.

        What a method returns as one tensor is under "value".
        """
        self.check_fitted()
        compute = self.traced(method)
        for batch, _ in inputs.batches(x, self.contract, batch_size):
            self._warn_outside(batch)
            found = compute(batch)
            yield {name: value.numpy() for name, value in found.items()}

    def _warn_outside(self, batch):
        """Warns once for each model."""
        if "_warned_outside" not in self.__dict__ and inputs.warn_outside(batch, self.contract):
            self.__dict__["_warned_outside"] = True

    def traced(
        self, name: str, function: Callable | None = None
    ) -> tf.types.experimental.PolymorphicFunction:
        """A method of this predictor, or `function` under a name of its own, as one `tf.function`
        of a batch from `inputs.batches` that returns a dict."""
        # In the instance and unseen by Keras' tracking, so that it goes when the model goes.
        known = self.__dict__.setdefault("_traced", {})
        if name not in known:
            compute, contract = function or getattr(self, name), self.contract

            def named(batch):
                found = compute(batch)
                return found if isinstance(found, dict) else {"value": found}

            specs = [contract.specs()]
            known[name] = tf.function(named, input_signature=specs, autograph=False)
        return known[name]
