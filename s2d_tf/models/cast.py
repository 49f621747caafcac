"""Takes a Keras classifier apart into its features and its final linear layer."""

import keras


def split_classifier(model):
    """The model up to its last layer, and that last layer, which must be a `Dense`.

    Args:
        model: functional or sequential `keras.Model`, built, one output.
    """
    last = model.layers[-1] if getattr(model, "layers", None) else None
    if not isinstance(last, keras.layers.Dense):
        raise ValueError(
            "Expected a classifier whose last layer is keras.layers.Dense, received "
            f"{type(last).__name__}: end the model with Dense (linear or softmax)."
        )
    if last.activation not in (keras.activations.linear, keras.activations.softmax):
        raise ValueError(
            "Expected a last Dense layer with linear or softmax activation, received "
            f"{keras.activations.serialize(last.activation)!r}."
        )
    if not model.built or len(model.outputs) != 1:
        raise ValueError("Expected a built model with one output: call build() or pass Input first.")
    if len(last.input.shape) != 2:
        raise ValueError(
            "Expected feature vectors [batch, features] before the last layer, received the "
            f"shape {tuple(last.input.shape)}: pool or flatten first."
        )
    return keras.Model(model.inputs[0], last.input, name=f"{model.name}_features"), last
