"""The input side of a multi-input multi-output network."""

from __future__ import annotations

import tensorflow as tf


def stack_inputs(images: tf.Tensor, num_heads: int) -> tf.Tensor:
    """Images for a network that sees `num_heads` of them at once, stacked along the channels.

    Args:
        images: `[batch, height, width, channels]`, which every head shall see (prediction: the
            image is tiled), or `[batch, num_heads, height, width, channels]`, one for each head.
        num_heads: number of heads; 1 returns plain images as they are.

    Example:

    >>> layers.stack_inputs(tf.zeros([4, 32, 32, 3]), num_heads=2).shape
    TensorShape([4, 32, 32, 6])
    """
    if len(images.shape) == 4:
        return images if num_heads == 1 else tf.tile(images, [1, 1, 1, num_heads])
    if images.shape[1] != num_heads:
        raise ValueError(
            f"images: expected one image for each of {num_heads} heads, [batch, {num_heads}, "
            f"height, width, channels], received the shape {tuple(images.shape)}. Stack as "
            "many images as there are heads."
        )
    return tf.concat(tf.unstack(images, axis=1), axis=-1)
