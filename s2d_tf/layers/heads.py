"""The linear heads of a network, and the stacked images that a network of several heads takes."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from s2d_tf._types import Shape


@keras.saving.register_keras_serializable(package="s2d_tf")
class Head(keras.layers.Layer):
    """Linear output layers, one for each head, applied to many samples in one product.

    Features `[batch, num_heads, samples, d]` (or 1 in place of `num_heads`: all heads see the same)
    become logits `[batch, num_heads, samples, units]`. It computes in float32 under any precision
    policy, because its outputs are exponents.

    Args:
        units: outputs of each head, the number of classes.
        num_heads: independent heads; 1 for all but MIMO.
        kernel_initializer, bias_initializer: `None` starts the kernel uniform in
            +-1/sqrt(fan-in) and the bias at zero, as the original DenseNet and WRN do.
        seed: integer seed of that kernel; `None` draws one.

    Example:

    >>> head = layers.Head(units=10)
    >>> head(tf.zeros([4, 1, 5, 64])).shape                # five noisy copies of each example
    TensorShape([4, 1, 5, 10])
    """

    def __init__(
        self,
        units: int,
        num_heads: int = 1,
        kernel_initializer: Any = None,
        bias_initializer: Any = "zeros",
        seed: int | None = None,
        dtype: str = "float32",
        **kwargs: Any,
    ) -> None:
        super().__init__(dtype=dtype, **kwargs)
        self.units = units
        self.num_heads = num_heads
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.seed = seed

    def build(self, input_shape: Shape) -> None:
        fan_in = input_shape[-1]
        bound = fan_in**-0.5
        self.kernel = self.add_weight(
            name="kernel",
            shape=(self.num_heads, fan_in, self.units),
            initializer=self.kernel_initializer
            or keras.initializers.RandomUniform(-bound, bound, seed=self.seed),
        )
        self.bias = self.add_weight(
            name="bias", shape=(self.num_heads, self.units), initializer=self.bias_initializer
        )

    def call(self, features: tf.Tensor) -> tf.Tensor:
        # Each head is one plain matrix product: oneDNN's fused batch product with a broadcast
        # bias corrupts memory (seen with TensorFlow 2.21 on AVX512).
        shape = tf.shape(features)
        heads = tf.unstack(features, axis=1) * (self.num_heads // features.shape[1])
        logits = [
            tf.reshape(
                tf.matmul(tf.reshape(rows, [-1, features.shape[-1]]), self.kernel[head])
                + self.bias[head],
                [shape[0], shape[2], self.units],
            )
            for head, rows in enumerate(heads)
        ]
        return tf.stack(logits, axis=1)

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (input_shape[0], self.num_heads, input_shape[2], self.units)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "num_heads": self.num_heads,
            "kernel_initializer": keras.initializers.serialize(self.kernel_initializer)
            if self.kernel_initializer
            else None,
            "bias_initializer": keras.initializers.serialize(self.bias_initializer),
            "seed": self.seed,
        }


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
