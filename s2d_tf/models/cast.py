"""Casts a Keras classifier: its features, its final linear layer, and training that layer alone."""

from __future__ import annotations

import zlib
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Data
from s2d_tf.models import inputs
from s2d_tf.models.contract import require
from s2d_tf.models.predictor import Predictor


class Castable(Predictor):
    """Base of models with a `backbone` and a linear `head`, as Keras classifiers have them."""

    cast_head: int | None = None
    """Checksum of the head that `from_classifier` took; `None` where the model was not cast."""

    @classmethod
    def from_classifier(cls, model: keras.Model, freeze: bool = False, **kwargs: Any) -> Self:
        """Casts a trained Keras classifier whose last layer is `Dense` (linear or softmax).

        The features and the linear layer are the given model's own, so its predictions stay as
        they are; nothing is added in front, so it takes what that model took. A KerasHub task
        model (`TextClassifier`, `ImageClassifier`) keeps its preprocessor, so it takes raw texts
        or images. Before it has been trained with `fit`, the concentrations of a model with a
        Dirichlet are arbitrary and its knowledge uncertainty means nothing.

        Args:
            model: a `keras.Model` (functional or sequential) from any inputs to class scores.
            freeze: keep the features fixed and train only the linear layer. Then `head_only`
                trains it on features that are computed once.
            **kwargs: other arguments of this class.
        """
        features, dense = split_classifier(model)
        if freeze:
            features.trainable = False
        made = cls(features, dense.units, **kwargs)
        made.head.kernel.assign(dense.kernel[None])
        if dense.use_bias:
            made.head.bias.assign(dense.bias[None])
        made.cast_head = zlib.crc32(made.head.kernel.numpy())
        return made

    @property
    def is_only_cast(self) -> bool:
        """Whether its Dirichlet is still that of the head that it was cast with, never trained."""
        same = self.cast_head == zlib.crc32(self.head.kernel.numpy())
        return same and self.kind == "dirichlet"

    def predict_features(self, x: Data, batch_size: int = 256) -> np.ndarray:
        """`features` of all examples, `[n, d]`; arguments as for `predict_members`.

        They are computed to be fitted, so that a model without a range learns it from the inputs.
        """
        inputs.warn_unknown(self)
        batches = self.map_batches("features", x, batch_size, learn=True)
        return np.concatenate([batch["value"] for batch, _ in batches])

    def head_only(self, fresh: bool = False, **changes: Any) -> Any:
        """A model of the same class and settings that takes this one's features.

        With frozen features nothing else is trained, and they do not change: compute them once
        with `predict_features`, then fit this model in seconds, with as many seeds and settings as
        you like. Dropout of the backbone is not in it. `take_head` puts a result back.

        Args:
            fresh: start from new weights, drawn from the seed, instead of this model's.
            **changes: constructor arguments with other values.

        Example:

        ```python
        model = models.S2DClassifier.from_classifier(keras_model, freeze=True)
        cached = model.predict_features(x)                       # once
        head = model.head_only(fresh=True, seed=1, student_weight=1e-3)
        head.compile("adam")
        head.fit(cached, y, epochs=20)                           # seconds
        model.take_head(head).predict_uncertainty(x)
        ```
        """
        features = keras.Input([self.backbone.output_shape[-1]], name="features")
        config = self.get_config()
        for name in ("mean", "stddev", "contract", "name"):
            config.pop(name, None)
        config["backbone"] = keras.saving.serialize_keras_object(keras.Model(features, features))
        made = type(self).from_config({**config, **changes})
        return made if fresh else made.take_head(self)

    def take_head(self, model: Any) -> Self:
        """Copies the linear layers of a model over the same features; returns `self`."""
        for own, other in zip(self.linear_layers, model.linear_layers, strict=True):
            own.set_weights(other.get_weights())
        return self

    @property
    def linear_layers(self) -> list[keras.layers.Layer]:
        """The layers after the features that a prediction or the training uses."""
        return [self.head]


def split_classifier(model: keras.Model) -> tuple[keras.Model, keras.layers.Dense]:
    """The model up to its last layer, and that last layer, which must be a `Dense`.

    Args:
        model: functional or sequential `keras.Model`, built, one output. The `preprocessor` of a
            KerasHub task model becomes part of the features.
    """
    functional = isinstance(model, keras.Model) and model.built and getattr(model, "inputs", None)
    require(
        functional and getattr(model, "outputs", None),
        "model: expected a built functional or sequential keras.Model, received "
        f"{type(model).__name__}. Call build() or start with keras.Input.",
    )
    require(
        len(model.outputs) == 1,
        f"model: expected one output, received {len(model.outputs)}. Choose one of them: "
        "keras.Model(model.inputs, output).",
    )
    # The layer that makes the output; in a graph with branches it need not be the last one listed.
    last = model.outputs[0]._keras_history.operation
    require(
        isinstance(last, keras.layers.Dense),
        "model: expected a classifier whose last layer is keras.layers.Dense, received "
        f"{type(last).__name__}. End the model with Dense (linear or softmax).",
    )
    require(
        last.activation in (keras.activations.linear, keras.activations.softmax),
        "model: expected a last Dense layer with linear or softmax activation, received "
        f"{keras.activations.serialize(last.activation)!r}. Use one of these.",
    )
    require(
        len(last.input.shape) == 2,
        "model: expected feature vectors [batch, features] before the last layer, received the "
        f"shape {tuple(last.input.shape)}. Pool or flatten them first.",
    )
    given = model.inputs if isinstance(model, keras.Sequential) else model.input
    if isinstance(given, (list, tuple)) and len(given) == 1:
        (given,) = given
    features = keras.Model(given, last.input, name=f"{model.name}_features")
    preprocessor = getattr(model, "preprocessor", None)
    return (features if preprocessor is None else _after_preprocessor(preprocessor, features)), last


def _after_preprocessor(preprocessor: keras.layers.Layer, features: keras.Model) -> keras.Model:
    """The network from what a preprocessor takes: images of any size if it has a converter of
    images, else texts."""
    if getattr(preprocessor, "image_converter", None) is not None:
        raw = keras.Input([None, None, 3], name="images")
    else:
        raw = keras.Input([], dtype="string", name="texts")
    return keras.Model(raw, features(Preprocess(preprocessor)(raw)), name=features.name)


@keras.saving.register_keras_serializable(package="s2d_tf")
class Preprocess(keras.layers.Layer):
    """Runs a preprocessor inside the network.

    Args:
        preprocessor: a Keras layer from raw to prepared inputs, such as those of KerasHub.
        prepared: `keras.KerasTensor`s of what it makes; `None`: it is run to see.
    """

    def __init__(
        self, preprocessor: keras.layers.Layer, prepared: Any = None, **kwargs: Any
    ) -> None:
        super().__init__(**{**kwargs, "trainable": False, "autocast": False})
        self.preprocessor = preprocessor
        self.__dict__["_prepared"] = prepared  # as it is: Keras would wrap a dict
        self.supports_jit = False  # XLA has no texts

    def call(self, inputs: Any) -> Any:
        return self.preprocessor(inputs)

    def compute_output_spec(self, inputs: keras.KerasTensor) -> Any:
        if self._prepared is None:
            # Preprocessors work in tf.data and know nothing of symbolic tensors.
            spec = tf.TensorSpec(inputs.shape, inputs.dtype)
            found = tf.function(self.preprocessor).get_concrete_function(spec).structured_outputs
            self.__dict__["_prepared"] = keras.tree.map_structure(_symbolic, found)
        return keras.tree.map_structure(_symbolic, self._prepared)

    def get_config(self) -> dict[str, Any]:
        # When a saved model is loaded, the tokenizer's words come after the network is built.
        parts = {"preprocessor": self.preprocessor, "prepared": self._prepared}
        made = {name: keras.saving.serialize_keras_object(part) for name, part in parts.items()}
        return {**super().get_config(), **made}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Preprocess:
        names = ("preprocessor", "prepared")
        made = {name: keras.saving.deserialize_keras_object(config[name]) for name in names}
        return cls(**{**config, **made})


def _symbolic(tensor):
    return keras.KerasTensor(
        [None, *tensor.shape[1:]], keras.backend.standardize_dtype(tensor.dtype)
    )
