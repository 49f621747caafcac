"""DenseNet-BC (Huang et al., 2017), as its authors trained it."""

from __future__ import annotations

import math

import keras

from s2d_tf._types import Shape
from s2d_tf.backbones.blocks import Blocks, DenseMaps, check_depth

NUM_BLOCKS = 3
BOTTLENECK_FACTOR = 4


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
    check_depth(depth)
    if not 0.0 < reduction <= 1.0:
        raise ValueError(
            f"reduction: expected a number in (0, 1], received {reduction!r}. The paper has 0.5."
        )
    # The authors' initializer keeps the variance of the backward pass.
    blocks = Blocks("fan_out", dropout, synchronized_batch_norm, seed)

    images = keras.Input(input_shape, name="images")
    x = blocks.conv(images, 2 * growth_rate, 3, "stem", strides=stem_stride)
    for block in range(1, NUM_BLOCKS + 1):
        maps = DenseMaps(blocks, x, f"block{block}")
        for unit in range(1, (depth - 4) // 6 + 1):
            scope = f"block{block}_unit{unit}"
            maps.append(_dense_unit(blocks, maps, growth_rate, scope), scope)
        if block < NUM_BLOCKS:
            x = _transition(blocks, maps, reduction, f"transition{block}")
    x = blocks.norm_relu(maps.concatenated("final_concat"), "final")
    features = keras.layers.GlobalAveragePooling2D(name="features")(x)
    return keras.Model(images, features, name=name)


def _dense_unit(blocks, maps, growth_rate, scope):
    """BN-ReLU-1x1 (the bottleneck) of all maps before it, then BN-ReLU-3x3 to its own maps."""
    x = maps.norm_relu_conv1x1(BOTTLENECK_FACTOR * growth_rate, scope, 1)
    x = blocks.dropout(x, f"{scope}_dropout1")
    x = blocks.norm_relu(x, scope, 2)
    x = blocks.conv(x, growth_rate, 3, f"{scope}_conv2")
    return blocks.dropout(x, f"{scope}_dropout2")


def _transition(blocks, maps, reduction, scope):
    """BN-ReLU-1x1 to the kept channels, then the mean of 2x2 pixels."""
    x = maps.norm_relu_conv1x1(max(1, math.floor(maps.channels * reduction)), scope)
    x = blocks.dropout(x, f"{scope}_dropout")
    # "same" differs from the original only where a side is odd: the last row is kept and averaged
    # over the pixels that exist, so that even a 1x1 image passes.
    return keras.layers.AveragePooling2D(2, padding="same", name=f"{scope}_pool")(x)
