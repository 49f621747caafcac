"""Takes a Keras classifier apart into its features and its final linear layer."""

import keras


def split_classifier(model):
    """The model up to its last layer, and that last layer, which must be a `Dense`.

    Args:
        model: functional or sequential `keras.Model`, built, one output.
    """
    if not isinstance(model, keras.Model) or not model.built or not getattr(model, "outputs", None):
        raise ValueError(
            "Expected a built functional or sequential keras.Model, received "
            f"{type(model).__name__}: call build() or pass Input first."
        )
    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise ValueError(
            "Expected a model with one input and one output, received "
            f"{len(model.inputs)} and {len(model.outputs)}."
        )
    # The layer that makes the output; in a graph with branches it need not be the last one listed.
    last = model.outputs[0]._keras_history.operation
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
    if len(last.input.shape) != 2:
        raise ValueError(
            "Expected feature vectors [batch, features] before the last layer, received the "
            f"shape {tuple(last.input.shape)}: pool or flatten first."
        )
    return keras.Model(model.inputs[0], last.input, name=f"{model.name}_features"), last
