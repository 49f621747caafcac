"""Casts a Keras classifier: its features, its final linear layer, and training that layer alone."""

from __future__ import annotations

import zlib
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Data
from s2d_tf.models import inputs
from s2d_tf.models.contract import input_structure, require
from s2d_tf.models.predictor import Predictor


class Castable(Predictor):
    """Base of models with a `backbone` and a linear `head`, as Keras classifiers have them."""

    cast_head: int | None = None
    """Checksum of the head that `from_classifier` took; `None` where the model was not cast."""

    @classmethod
    def from_classifier(cls, model: keras.Model, freeze: bool = False, **kwargs: Any) -> Self:
        """Casts a trained Keras classifier that ends in a linear layer, with softmax or without.

        The linear layer is `Dense` or, as in MobileNet, a 1x1 convolution of pooled features; the
        softmax is its activation or a layer after it. One unit with a sigmoid becomes two classes.
        The features and the linear layer are the given model's own, so the class probabilities stay
        as they are: `predict_uncertainty` has them as `probs`, while `predict` returns logits, as
        `model(x)` does. Nothing is added in front, so it takes what that model took. A KerasHub
        task model (`TextClassifier`, `ImageClassifier`) keeps its preprocessor, so it takes raw
        texts or images. Before it has been trained with `fit`, the concentrations of a model with a
        Dirichlet are arbitrary and its knowledge uncertainty means nothing.

        Args:
            model: a `keras.Model` (functional or sequential) from any inputs to class scores.
            freeze: keep the features fixed and train only the linear layer. Then `head_only`
                trains it on features that are computed once.
            **kwargs: other arguments of this class.
        """
        features, kernel, bias = split_classifier(model)
        if freeze:
            features.trainable = False
        made = cls(features, len(bias), **kwargs)
        made.head.set_weights([kernel[None], bias[None]])
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


def split_classifier(model: keras.Model) -> tuple[keras.Model, np.ndarray, np.ndarray]:
    """The model up to its last linear layer, and the kernel and bias of that layer.

    Args:
        model: functional or sequential `keras.Model`, built, one output. The `preprocessor` of a
            KerasHub task model becomes part of the features.
    """
    require(
        isinstance(model, keras.Model) and getattr(model, "outputs", None),
        "model: expected a functional keras.Model, or a Sequential with known inputs, received "
        f"{type(model).__name__}. Start with keras.Input; of a subclassed model, call the features "
        "and the last Dense layer on a keras.Input x: keras.Model(x, dense(features(x))).",
    )
    require(
        len(model.outputs) == 1,
        f"model: expected one output, received {len(model.outputs)}. Choose one of them: "
        "keras.Model(model.inputs, output).",
    )
    # The layer that makes the output; in a graph with branches it need not be the last one listed.
    last, found = model.outputs[0]._keras_history.operation, []
    while isinstance(last, _AFTER_LINEAR):
        found.append("softmax" if isinstance(last, keras.layers.Softmax) else _activation(last))
        last = last.input._keras_history.operation
    is_convolution = isinstance(last, keras.layers.Conv2D) and last.kernel_size == (1, 1)
    require(
        isinstance(last, keras.layers.Dense) or is_convolution,
        "model: expected a classifier whose last layer is keras.layers.Dense or, on pooled "
        f"features, a 1x1 Conv2D, received {type(last).__name__}. End the model with Dense.",
    )
    activations = {*found, _activation(last)} - {"linear"}
    kernel = np.asarray(last.kernel).reshape(-1, last.kernel.shape[-1])
    is_binary = kernel.shape[1] == 1
    require(
        activations <= {"sigmoid" if is_binary else "softmax"} and (activations or not is_binary),
        "model: expected logits or softmax of at least two classes, or one unit with a sigmoid, "
        f"received {kernel.shape[1]} units with {sorted(activations) or 'linear'} activation. Use "
        "one of these.",
    )
    features = last.input
    require(
        len(model.output_shape) == 2 and set(features.shape[1:-1]) <= {1},
        "model: expected feature vectors [batch, features] before the last layer, received the "
        f"shape {tuple(features.shape)}. Pool or flatten them first.",
    )
    features = features if len(features.shape) == 2 else keras.layers.Flatten()(features)
    network = keras.Model(input_structure(model), features, name=f"{model.name}_features")
    if getattr(model, "preprocessor", None) is not None:
        network = _after_preprocessor(model.preprocessor, network)
    bias = np.asarray(last.bias) if last.use_bias else np.zeros(kernel.shape[1:], kernel.dtype)
    if is_binary:  # softmax(-z/2, z/2) is sigmoid(z) of the second class
        kernel, bias = (np.concatenate([-each, each], axis=-1) / 2 for each in (kernel, bias))
    return network, kernel, bias


_AFTER_LINEAR = (
    keras.layers.Activation,
    keras.layers.Softmax,
    keras.layers.Reshape,
    keras.layers.Flatten,
)


def _activation(layer):
    """The name of a layer's activation, "linear" if it has none."""
    return keras.activations.serialize(getattr(layer, "activation", keras.activations.linear))


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
