"""DenseNet-BC (Huang et al., 2017), as its authors trained it."""

from __future__ import annotations

import math

import keras

from s2d_tf._types import Shape
from s2d_tf.backbones.blocks import (
    Blocks,
    check_depth,
    check_dropout,
    check_input_shape,
    check_number,
    check_positive_integer,
    check_seed,
)

NUM_BLOCKS = 3
BOTTLENECK_FACTOR = 4
UNITS_APART = 4
"""Units whose feature maps lie apart before they join the others: fewer copies, few parts."""


def densenet_bc(
    input_shape: Shape = (32, 32, 3),
    depth: int = 100,
    growth_rate: int = 12,
    reduction: float = 0.5,
    dropout: float = 0.0,
    stem_stride: int = 1,
    synchronized_batch_norm: bool = False,
    seed: int | None = None,
    name: str = "densenet_bc",
) -> keras.Model:
    """Builds DenseNet-BC-`depth`-`growth_rate` without its head.

    Args:
        input_shape: (height, width, channels) of a normalized float image; height and width may be
            None for free sizes.
        depth: 6n + 4, where n is the number of dense units in each of the three blocks.
        growth_rate: channels that each unit adds; the stem has twice as many.
        reduction: the fraction of channels that a transition keeps, in (0, 1].
        dropout: rate after every convolution but the stem.
        stem_stride: 1 as published; 2 halves the image at once, for compact networks.
        synchronized_batch_norm: whether batch statistics are those of all replicas.
        seed: an integer that fixes initial weights and dropout masks, whatever was built before.
        name: the name of the model.

    Returns:
        A functional `keras.Model`: images `[batch, *input_shape]` -> features `[batch, channels]`
        (342 channels for the default arguments).

    Example:

    >>> backbone = backbones.densenet_bc(input_shape=(8, 8, 1), depth=10, growth_rate=4)
    >>> backbone.output_shape
    (None, 9)
    """
    input_shape = check_input_shape(input_shape, free_size=True)
    depth = check_depth(depth)
    growth_rate = check_positive_integer("growth_rate", growth_rate)
    reduction = check_number("reduction", reduction, "in (0, 1]", lambda part: 0.0 < part <= 1.0)
    stem_stride = check_positive_integer("stem_stride", stem_stride)
    # The authors' initializer keeps the variance of the backward pass.
    blocks = Blocks("fan_out", check_dropout(dropout), synchronized_batch_norm, check_seed(seed))

    images = keras.Input(input_shape, name="images")
    x = blocks.conv(images, 2 * growth_rate, 3, "stem", strides=stem_stride)
    for block in range(1, NUM_BLOCKS + 1):
        maps, moments = [x], blocks.moments(x, f"block{block}_moments")
        for unit in range(1, (depth - 4) // 6 + 1):
            scope = f"block{block}_unit{unit}"
            maps, moments = _dense_unit(blocks, maps, moments, growth_rate, scope)
        if block < NUM_BLOCKS:
            x = _transition(blocks, maps, moments, reduction, f"transition{block}")
    x = keras.layers.Concatenate(name="final_concat")(maps)
    x = blocks.norm_relu(x, "final")
    features = keras.layers.GlobalAveragePooling2D(name="features")(x)
    return keras.Model(images, features, name=name)


def _dense_unit(blocks, maps, moments, growth_rate, scope):
    """BN-ReLU-1x1 (the bottleneck), then BN-ReLU-3x3, whose output is appended to the input."""
    filters = BOTTLENECK_FACTOR * growth_rate
    new = blocks.shared_norm_relu_conv1x1(maps, moments, filters, scope, 1)
    new = blocks.dropout(new, f"{scope}_dropout1")
    new = blocks.norm_relu(new, scope, 2)
    new = blocks.conv(new, growth_rate, 3, f"{scope}_conv2")
    new = blocks.dropout(new, f"{scope}_dropout2")
    new_moments = blocks.moments(new, f"{scope}_moments")
    return (
        _append(maps, new, f"{scope}_concat"),
        keras.layers.Concatenate(name=f"{scope}_concat_moments")([moments, new_moments]),
    )


def _append(maps, new, name):
    """Appends feature maps; the older ones, many, are copied once in `UNITS_APART` units only."""
    if len(maps) == 1:
        return [*maps, new]
    older, recent = maps
    if recent.shape[-1] < UNITS_APART * new.shape[-1]:
        return [older, keras.layers.Concatenate(name=name)([recent, new])]
    return [keras.layers.Concatenate(name=name)(maps), new]


def _transition(blocks, maps, moments, reduction, scope):
    """BN-ReLU-1x1 to the kept channels, then the mean of 2x2 pixels."""
    filters = max(1, math.floor(moments.shape[-1] * reduction))
    x = blocks.shared_norm_relu_conv1x1(maps, moments, filters, scope)
    x = blocks.dropout(x, f"{scope}_dropout")
    # "same" differs from the original only where a side is odd: the last row is kept and averaged
    # over the pixels that exist, so that even a 1x1 image passes.
    return keras.layers.AveragePooling2D(2, padding="same", name=f"{scope}_pool")(x)
