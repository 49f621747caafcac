"""What every model of this library is to others: its members' predictions and uncertainties."""

from __future__ import annotations

import contextlib
import functools
import itertools
import operator
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf._types import Data, Inputs, PathLike
from s2d_tf.models import inputs
from s2d_tf.models.answers import Answers
from s2d_tf.models.contract import Contract, clear_errors, require

_VOLATILE = {"contract", "history", "train_function", "test_function", "predict_function"} | {
    f"stop_{what}" for what in ("training", "evaluating", "predicting")
}
"""Attributes that fitting and predicting set, and that no prediction reads."""


class Predictor(keras.Model):
    """A source of member predictions: the one interface that zoo, evaluation and export see.

    A subclass sets `kind`, `num_classes`, `contract` and `num_members` and defines
    `member_logits`. A prediction depends on the weights and the input, never on the batch that an
    example came in or on what was predicted before.

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

    train_function: Any

    class_names: Sequence[str] | None = None
    """One name for each class, where they are known; `zoo.load` sets them, `export` keeps them."""

    metadata: dict | None = None
    """Where the model comes from; `zoo.load` sets it, `export` keeps it."""

    @functools.cached_property
    def input(self) -> Any:
        """Symbolic inputs, nested as the model takes them; `inputs` is the flat list."""
        return keras.tree.map_structure(
            lambda spec: keras.Input(spec.shape[1:], None, spec.dtype.name, name=spec.name),
            self.contract.specs(),
        )

    @property
    def inputs(self) -> list[keras.KerasTensor]:
        return keras.tree.flatten(self.input)

    @property
    def input_shape(self) -> Any:
        return keras.tree.map_structure(lambda tensor: tensor.shape, self.input)

    @property
    def image_shape(self) -> tuple[int | None, ...] | None:
        """Height, width and channels; `None` where the inputs are not one image."""
        return getattr(self.contract.image, "shape", None)

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
    def cached_predictors(self) -> list[Predictor]:
        """The predictors whose raw outputs are cached separately; their members in order are
        this predictor's."""
        return [self]

    @property
    def member_settings(self) -> tuple:
        """All that decides the members beside the weights and the inputs."""
        seeds = [
            layer.seed
            for layer in self._flatten_layers()
            if hasattr(layer, "seed") and hasattr(layer, "rate")
        ]
        return type(self).__name__, self.kind, self.num_members, getattr(self, "seed", 0), seeds

    @property
    def last_layer(self) -> keras.layers.Layer:
        """The linear head of a single network."""
        raise self._not_a_network("last_layer")

    def features(self, inputs: Inputs) -> tf.Tensor:
        """Feature vectors `[batch, d]` of a single network, which its `last_layer` takes."""
        raise self._not_a_network("features")

    def _not_a_network(self, name):
        return ValueError(
            f"{name}: expected a single network, received {type(self).__name__}, which has several "
            f"members. Use `{name}` of its `members` or of its `model`."
        )

    def __dir__(self) -> list[str]:
        # Keras walks all attributes when it saves a model, and these hold the model itself.
        hidden = ("networks", "cached_predictors")
        return [name for name in super().__dir__() if name not in hidden]

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

    def uncertainties(self, inputs: Inputs) -> dict[str, tf.Tensor]:
        """The tensors of `predict_uncertainty` for a batch; traceable."""
        return uncertainty.from_members(self.kind, self.member_logits(inputs))

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
        batches = self.map_batches("member_logits", x, batch_size)
        return self.kind, np.concatenate([batch["value"] for batch, _ in batches], axis=1)

    def predict(
        self,
        x: Data,
        batch_size: int | None = None,
        verbose: Any = "auto",
        steps: int | None = None,
        callbacks: Any = None,
    ) -> Any:
        """Keras' `predict`, with the checks of `evaluate`; members or heads are on axis 1."""
        with clear_errors():
            checked = inputs.checked(x, None, self._checks(), {"shuffle": False})
            return super().predict(checked, batch_size, verbose, steps, callbacks)

    def predict_on_batch(self, x: Inputs) -> Any:
        """Keras' `predict_on_batch`, with the checks of `evaluate`."""
        with clear_errors():
            return super().predict_on_batch(inputs.checked(x, None, self._checks(), {}))

    def predict_step(self, data: Data) -> Any:
        """Keras' own, with members or heads on axis 1: it joins batches along the first."""
        return keras.tree.map_structure(
            lambda found: tf.transpose(found, [1, 0, 2]) if found.shape.rank == 3 else found,
            super().predict_step(data),
        )

    def _checks(self, seen=None):
        """What a batch goes through in `fit`, where `seen` is a dict, or in `evaluate`."""

        def check(batch, targets):
            self._check(batch, targets, seen is not None)
            inputs.compare_ranges_of_batch(self.contract.flatten(batch), self, seen)

        return check

    def _check(self, x, targets, training=False):
        inputs.check(x, self.contract, getattr(self, "num_heads", 1))

    def predict_raw(
        self, x: Data, batch_size: int = 256, watch: Callable[[Iterator], Any] = iter
    ) -> np.ndarray:
        """`raw_outputs` of all examples as one array; arguments as for `predict_members`.

        `watch` passes batches on, such as `tqdm`, which shows a progress bar.
        """
        batches = watch(self.map_batches("raw_outputs", x, batch_size))
        return np.concatenate([batch["value"] for batch, _ in batches], axis=1)

    def predict_uncertainty(self, x: Data, batch_size: int = 256) -> Answers:
        """Class probabilities, and how uncertain they are, from data or from lack of knowledge.

        Args:
            x, batch_size: as for `predict_members`.

        Returns:
            Dict of arrays: `probs` `[n, classes]` and, for each example, `label` (the most likely
            class), `confidence` (its probability), `total`, `data` and `knowledge` uncertainty in
            nats. It prints as a table, and its `plot` draws inputs with their uncertainties.
        """
        self.warn_only_cast()
        found = [batch for batch, _ in self.map_batches("uncertainties", x, batch_size)]
        joined = {key: np.concatenate([batch[key] for batch in found]) for key in found[0]}
        lost = int(np.isnan(joined["total"]).sum())
        if lost:
            warnings.warn(
                f"model: expected finite answers, received NaN for {lost} of "
                f"{len(joined['total'])} examples. Load finite weights or train again.",
                stacklevel=2,
            )
        return Answers(joined, self.class_names)

    def map_batches(
        self,
        name: str,
        x: Data,
        batch_size: int = 256,
        function: Callable | None = None,
        learn: bool = False,
    ) -> Iterator[tuple[dict[str, np.ndarray], Any]]:
        """Streams a method over the inputs, so that memory does not grow with their number.

        A method is traced again after `compile`, and when a variable, a layer or a public attribute
        of a layer is another object. No batch is computed during a step of `fit` or
        `train_on_batch` of this model in another thread, so that all of its answers come from the
        weights before a step or after it; two batches may come from different ones. (Weights that
        are assigned in other ways change one after the other.)

        Args:
            name: a method from a batch, as the model takes it, to a tensor or a dict.
            x, batch_size: as for `predict_members`.
            function: called instead of a method, under a name of its own.
            learn: whether the inputs are those of a fit, from which unknown ranges are learned.

        Returns:
            For each batch a dict of arrays, and the batch's labels or `None`. What a method returns
            as one tensor is under "value".
        """
        graphs, locks = self._traced_methods()
        if name not in graphs:
            graphs[name] = self._trace(function or getattr(self, name))
        compute, contract, empty = graphs[name], self.contract, True
        seen: dict | None = {} if learn else None
        for parts, labels in inputs.examples(x, contract, batch_size):
            tensors = list(map(tf.convert_to_tensor, parts))
            for i, declared in enumerate(contract.tensors):
                inputs.check_tensor(tensors[i], declared)
                tensors[i] = inputs.as_network_takes(tensors[i], declared)
            inputs.compare_ranges(tensors, self, seen)
            empty = False
            with contextlib.ExitStack() as held:
                for lock in locks:
                    held.enter_context(lock)
                found = compute(tensors)
            yield keras.tree.map_structure(np.asarray, found), labels
        require(
            not empty,
            "x: expected at least one example, received none. Check the data.",
        )

    def _traced_methods(self):
        """The traced methods by name, and the locks to hold when they run.

        There are none yet where the model is no longer what they were traced from. The parts are
        held, so that no new object gets the id of an old one.
        """
        layers = list(self._flatten_layers())
        # In the instance and unseen by Keras' tracking, so that it goes when the model goes.
        names, old, *kept = self.__dict__.get("_traced", ((), (), {}, []))
        parts = self._traced_parts(layers, names)
        if len(old) != len(parts) or not all(map(operator.is_, old, parts)):
            names = [
                [k for k in list(vars(layer)) if k[0] != "_" and k not in _VOLATILE]
                for layer in layers
            ]
            inside = (each._step_lock for each in layers if isinstance(each, Predictor))
            kept = [{}, sorted(inside, key=id)]  # always in the same order
            self.__dict__["_traced"] = names, self._traced_parts(layers, names), *kept
        return kept

    def _traced_parts(self, layers, names):
        """The variables, the layers, and the attributes of these names of each layer."""
        parts = [*layers]
        for layer in layers:  # `variables` of the model would walk through them again, and slowly.
            parts += layer._trainable_variables + layer._non_trainable_variables
        # Names are those of layers that were traced; others, or none, make a difference anyway.
        for layer, watched in zip(layers, names, strict=False):
            # Each `compile` makes another configuration.
            parts += map(vars(layer).get, [*watched, "_compile_config"])
        return parts

    @property
    def _step_lock(self):
        return self.__dict__.setdefault("_lock_of_steps", threading.RLock())

    def make_train_function(self, force: bool = False) -> None:
        """Keras' own, whose steps wait for a prediction in another thread, and it for them.

        No prediction waits for a batch to come, since whatever makes the batch may need it.
        """
        if self.train_function is None or force:
            super().make_train_function(force)
            keras_step = self.train_function
            steps: dict[str, Callable] = {}

            def step(batch):
                return keras_step(iter([batch]))

            def alone(iterator):
                batches = [
                    next(iterator),
                    *itertools.islice(iterator, self.steps_per_execution - 1),
                ]
                spec = getattr(iterator, "element_spec", None)  # of batches of any size
                if repr(spec) not in steps:
                    eager = spec is None or self.run_eagerly
                    steps[repr(spec)] = step if eager else tf.function(step, [spec], False)
                with self._step_lock:
                    return [steps[repr(spec)](batch) for batch in batches][-1]

            self.train_function = alone

    def warn_once(self, about: str, message: str) -> None:
        """Warns, unless it did so about the same before."""
        if about not in self.__dict__.setdefault("_warned", set()):
            self.__dict__["_warned"].add(about)
            warnings.warn(message, UserWarning, stacklevel=4)

    def _trace(self, function):
        """A graph from the tensors of a batch, in the contract's order, to a dict."""
        self.check_fitted()

        def named(tensors):
            found = function(self.contract.pack(tensors))
            return found if isinstance(found, dict) else {"value": found}

        specs = keras.tree.flatten(self.contract.specs())
        # Concrete, so that TensorFlow does not warn of retracing where many models predict.
        return tf.function(named, input_signature=[specs], autograph=False).get_concrete_function()

    def export(self, filepath: PathLike, *args: Any, **kwargs: Any) -> None:
        """Keras' `export`, of what `model(inputs)` returns; `s2d_tf.export.save` writes a model
        that answers with probabilities and uncertainties."""
        kwargs.setdefault("input_signature", [self.input])
        super().export(filepath, *args, **kwargs)

    def summary(self, *args: Any, **kwargs: Any) -> None:
        """Keras' `summary`, and what predictions return."""
        super().summary(*args, **kwargs)
        (kwargs.get("print_fn") or print)(
            " predict: what model(x) returns, before the softmax\n"
            " predict_uncertainty: class probabilities, label and uncertainties"
        )

    def warn_only_cast(self) -> None:
        """Warns once where a Dirichlet is still that of a classifier which was cast."""
        cast = [each for each in self._flatten_layers() if getattr(each, "cast_head", None)]
        if any(each.is_only_cast for each in cast):
            self.warn_once(
                "cast",
                "model: expected one that was trained with its Dirichlet, received one that was "
                "only cast from a classifier. Fit it, or knowledge uncertainty means nothing.",
            )

    def check_fitted(self) -> None:
        """Raises a `ValueError` where a layer still has to be fitted to images."""
        for layer in self._flatten_layers():
            require(
                getattr(layer, "fitted", True),
                f"model: expected fitted layers, received {layer.name!r}, which is not fitted. "
                "Call model.adapt(images), fit the model, or load weights.",
            )

    def check_finite(self) -> None:
        """Raises a `ValueError` where a weight is NaN or infinite."""
        for weight in self.weights:  # without metrics, which may be NaN where no weight is
            values = keras.ops.convert_to_numpy(weight)
            require(
                values.dtype.kind in "biuOSU" or np.isfinite(values).all(),  # bfloat16 has kind V
                f"model: expected finite weights, received NaN or infinity in {weight.path!r}. "
                "Train it again, or load other weights.",
            )


class WrappedPredictor(Predictor):
    """Base of predictors around another one, with its classes and its inputs.

    Args:
        model: the predictor inside.
    """

    def __init__(self, model: Predictor, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        for name in ("kind", "num_classes", "class_names", "metadata"):
            setattr(self, name, getattr(model, name))
        self.built = True

    @property
    def contract(self) -> Contract:
        return self.model.contract

    @contract.setter
    def contract(self, learned: Contract) -> None:
        self.model.contract = learned

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.model.num_members

    @property
    def num_parameters(self) -> int:
        return self.model.num_parameters

    @property
    def networks(self) -> list[keras.Model]:
        return self.model.networks

    @property
    def last_layer(self) -> keras.layers.Layer:
        return self.model.last_layer
