"""One hidden layer, for vectors: those of a table, or of an encoder that is not trained."""

import keras

from s2d_tf.backbones.blocks import (
    Blocks,
    check_dropout,
    check_positive_integer,
    check_seed,
    layer_seed,
)


def dense(
    input_shape: tuple[int] = (384,),
    width: int = 512,
    dropout: float = 0.0,
    synchronized_batch_norm: bool = False,
    seed: int | None = None,
    name: str = "dense",
) -> keras.Model:
    """Builds a dense layer with ReLU.

    Args:
        input_shape: `(size,)` of the vectors.
        width: units of the layer.
        dropout: rate after the layer.
        synchronized_batch_norm: as for the other backbones; this one has no batch norm.
        seed: an integer that fixes initial weights and dropout masks, whatever was built before.
        name: the name of the model.

    Returns:
        A functional `keras.Model`: vectors `[batch, size]` -> features `[batch, width]`.

    Example:

    >>> backbones.dense((13,), width=32).output_shape
    (None, 32)
    """
    if len(input_shape) != 1:
        raise ValueError(
            f"input_shape: expected (size,) of vectors, received {tuple(input_shape)}. Flatten or "
            "pool the inputs first."
        )
    size = check_positive_integer("input_shape", input_shape[0])
    width = check_positive_integer("width", width)
    seed = check_seed(seed)
    blocks = Blocks("fan_in", check_dropout(dropout), synchronized_batch_norm, seed)
    vectors = keras.Input([size], name="vectors")
    initializer = keras.initializers.GlorotUniform(layer_seed(seed, "hidden"))
    hidden = keras.layers.Dense(width, "relu", kernel_initializer=initializer, name="hidden")
    return keras.Model(vectors, blocks.dropout(hidden(vectors), "hidden_dropout"), name=name)
