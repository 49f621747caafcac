"""Takes a Keras classifier apart into its features and its final linear layer."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf


def split_classifier(model: keras.Model) -> tuple[keras.Model, keras.layers.Dense]:
    """The model up to its last layer, and that last layer, which must be a `Dense`.

    Args:
        model: functional or sequential `keras.Model`, built, one output. The `preprocessor` of a
            KerasHub task model becomes part of the features.
    """
    if (
        not isinstance(model, keras.Model)
        or not model.built
        or not getattr(model, "inputs", None)
        or not getattr(model, "outputs", None)
    ):
        raise ValueError(
            "model: expected a built functional or sequential keras.Model, received "
            f"{type(model).__name__}. Call build() or start with keras.Input."
        )
    if len(model.outputs) != 1:
        raise ValueError(
            f"model: expected one output, received {len(model.outputs)}. Choose one of them: "
            "keras.Model(model.inputs, output)."
        )
    # The layer that makes the output; in a graph with branches it need not be the last one listed.
    last = model.outputs[0]._keras_history.operation
    if not isinstance(last, keras.layers.Dense):
        raise ValueError(
            "model: expected a classifier whose last layer is keras.layers.Dense, received "
            f"{type(last).__name__}. End the model with Dense (linear or softmax)."
        )
    if last.activation not in (keras.activations.linear, keras.activations.softmax):
        raise ValueError(
            "model: expected a last Dense layer with linear or softmax activation, received "
            f"{keras.activations.serialize(last.activation)!r}. Use one of these."
        )
    if len(last.input.shape) != 2:
        raise ValueError(
            "model: expected feature vectors [batch, features] before the last layer, "
            f"received the shape {tuple(last.input.shape)}. Pool or flatten them first."
        )
    inputs = model.inputs if isinstance(model, keras.Sequential) else model.input
    if isinstance(inputs, (list, tuple)) and len(inputs) == 1:
        (inputs,) = inputs
    features = keras.Model(inputs, last.input, name=f"{model.name}_features")
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
