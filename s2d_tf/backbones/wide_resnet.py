"""Wide residual networks (Zagoruyko and Komodakis, 2016), as their authors trained them."""

from __future__ import annotations

import keras

from s2d_tf._types import Shape
from s2d_tf.backbones.blocks import Blocks, check_depth

STEM_FILTERS = 16
BLOCK_FILTERS = (16, 32, 64)


def wide_resnet(
    input_shape: Shape = (32, 32, 3),
    depth: int = 28,
    width: int = 10,
    dropout: float = 0.0,
    stem_stride: int = 1,
    synchronized_batch_norm: bool = False,
    seed: int | None = None,
    name: str = "wide_resnet",
) -> keras.Model:
    """Builds WRN-`depth`-`width` without its head.

    Args:
        input_shape: (height, width, channels) of a normalized float image; height and width may be
            None for free sizes.
        depth: 6n + 4, where n is the number of residual units in each of the three blocks.
        width: what the channels 16, 32, 64 of the three blocks are multiplied by.
        dropout: rate between the two 3x3 convolutions of each unit.
        stem_stride: 1 as published; 2 halves the image at once, for compact networks.
        synchronized_batch_norm: whether batch statistics are those of all replicas.
        seed: an integer that fixes initial weights and dropout masks, whatever was built before.
        name: the name of the model.

    Returns:
        A functional `keras.Model`: images `[batch, *input_shape]` -> features
        `[batch, 64 * width]`.

    Example:

    >>> backbone = backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1)
    >>> backbone.output_shape
    (None, 64)
    """
    check_depth(depth)
    # The authors' initializer keeps the variance of the forward pass. Their batch-norm scales start
    # uniform in [0, 1], the default of their framework then; ours start at 1.
    blocks = Blocks("fan_in", dropout, synchronized_batch_norm, seed)

    images = keras.Input(input_shape, name="images")
    x = blocks.conv(images, STEM_FILTERS, 3, "stem", strides=stem_stride)
    for block, filters in enumerate(BLOCK_FILTERS, start=1):
        for unit in range(1, (depth - 4) // 6 + 1):
            strides = 2 if block > 1 and unit == 1 else 1
            x = _residual_unit(blocks, x, filters * width, strides, f"block{block}_unit{unit}")
    x = blocks.norm_relu(x, "final")
    features = keras.layers.GlobalAveragePooling2D(name="features")(x)
    return keras.Model(images, features, name=name)


def _residual_unit(blocks, x, filters, strides, scope):
    """Pre-activation unit; where the shape changes, both branches see the same BN-ReLU output."""
    activated = blocks.norm_relu(x, scope, 1)
    shortcut = x
    if x.shape[-1] != filters:
        shortcut = blocks.conv(activated, filters, 1, f"{scope}_shortcut", strides=strides)
    residual = blocks.conv(activated, filters, 3, f"{scope}_conv1", strides=strides)
    residual = blocks.norm_relu(residual, scope, 2)
    residual = blocks.dropout(residual, f"{scope}_dropout")
    residual = blocks.conv(residual, filters, 3, f"{scope}_conv2")
    return keras.layers.Add(name=f"{scope}_add")([shortcut, residual])
