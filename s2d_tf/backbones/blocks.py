"""What backbones are made of: convolution, batch norm with ReLU, dropout.

Layer names, their order and the shapes of their variables are a file format: weights files depend
on them. A change here that renames a layer makes published weights unreadable.
"""

from __future__ import annotations

import hashlib

import keras

from s2d_tf.backbones.batch_norm import (
    BatchNormalization,
    Moments,
    NormalizedConv2D,
    SharedBatchNormalization,
)
from s2d_tf.layers import Dropout

# The original authors' batch norm; torch's momentum 0.1 is 0.9 in the sense of Keras.
BATCH_NORM_MOMENTUM = 0.9
BATCH_NORM_EPSILON = 1e-5

UNITS_APART = 4
"""Units of a dense block whose feature maps stay apart before they join the others: few copies."""


def layer_seed(seed: int | None, name: str) -> int | None:
    """Returns the 31-bit seed of the layer called `name` in a network built with `seed`.

    The name is hashed, not counted: layers of one network and networks of neighboring seeds share
    no random numbers, and a layer keeps its seed when others are added or the order changes.
    """
    if seed is None:
        return None
    digest = hashlib.blake2b(f"{seed}/{name}".encode(), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


class Blocks:
    """Adds named layers to a functional graph with one network's initializer, dropout and seed.

    Args:
        fan: `"fan_in"` or `"fan_out"`; kernels are untruncated normal with variance 2 / fan.
        dropout: the rate of every dropout layer; no layer is made when it is 0.
        synchronized_batch_norm: whether batch statistics are those of all replicas.
        seed: an integer from which each layer's own seed is derived, or None.
    """

    def __init__(
        self, fan: str, dropout: float, synchronized_batch_norm: bool, seed: int | None
    ) -> None:
        self.fan = fan
        self.rate = dropout
        self.synchronized_batch_norm = synchronized_batch_norm
        self.seed = seed

    def conv(
        self, x: keras.KerasTensor, filters: int, kernel_size: int, name: str, strides: int = 1
    ) -> keras.KerasTensor:
        """A bias-free convolution, padded by `kernel_size // 2` on every side as in torch."""
        padding = "same"
        if strides > 1 and kernel_size > 1:
            # "same" would pad an even image at the far side only and put the windows one pixel off
            # the original's, and off those of the strided 1x1 shortcut beside it.
            x = keras.layers.ZeroPadding2D(kernel_size // 2, name=f"{name}_pad")(x)
            padding = "valid"
        return keras.layers.Conv2D(
            filters,
            kernel_size,
            strides=strides,
            padding=padding,
            use_bias=False,
            kernel_initializer=self.initializer(name),
            name=name,
        )(x)

    def norm_relu(
        self, x: keras.KerasTensor, scope: str, index: int | str = ""
    ) -> keras.KerasTensor:
        """Batch norm `<scope>_bn<index>`, then ReLU `<scope>_relu<index>`."""
        x = self.norm(BatchNormalization, f"{scope}_bn{index}")(x)
        return keras.layers.Activation("relu", name=f"{scope}_relu{index}")(x)

    def norm(self, kind: type, name: str) -> keras.layers.BatchNormalization:
        """A batch norm of one of our two classes."""
        return kind(
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            synchronized=self.synchronized_batch_norm,
            name=name,
        )

    def initializer(self, name: str) -> keras.initializers.Initializer:
        """Untruncated normal with variance 2 / fan."""
        return keras.initializers.VarianceScaling(
            2.0, self.fan, "untruncated_normal", seed=layer_seed(self.seed, name)
        )

    def dropout(self, x: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Dropout, or `x` itself when the rate is 0."""
        if self.rate == 0:
            return x
        return Dropout(self.rate, seed=layer_seed(self.seed, name), name=name)(x)


class DenseMaps:
    """The feature maps of a dense block, to which every unit appends its own.

    They are one concatenation in a few parts, with the batch statistics of each channel, which all
    batch norms of the block share; see `batch_norm`.

    Args:
        blocks: adds the layers.
        x: the block's input.
        scope: the block's name.
    """

    def __init__(self, blocks: Blocks, x: keras.KerasTensor, scope: str) -> None:
        self.blocks = blocks
        self.parts, self.moments = [x], self._moments(x, scope)

    @property
    def channels(self) -> int:
        return self.moments.shape[-1]

    def norm_relu_conv1x1(
        self, filters: int, scope: str, index: int | str = ""
    ) -> keras.KerasTensor:
        """`<scope>_bn<index>` and ReLU of all maps, then the 1x1 `<scope>_conv<index>`."""
        norm = self.blocks.norm(SharedBatchNormalization, f"{scope}_bn{index}")
        name = f"{scope}_conv{index}"
        conv = NormalizedConv2D(
            filters,
            1,
            epsilon=BATCH_NORM_EPSILON,
            kernel_initializer=self.blocks.initializer(name),
            name=name,
        )
        return conv(self.parts, norm(self.moments))

    def append(self, new: keras.KerasTensor, scope: str) -> None:
        """Appends a unit's maps; the older ones, many, are copied in one of `UNITS_APART` units."""
        moments = self._moments(new, scope)
        name = f"{scope}_concat"
        older, *recent = self.parts
        if recent and recent[0].shape[-1] < UNITS_APART * new.shape[-1]:
            self.parts = [older, keras.layers.Concatenate(name=name)([*recent, new])]
        elif recent:
            self.parts = [keras.layers.Concatenate(name=name)(self.parts), new]
        else:
            self.parts = [older, new]
        self.moments = keras.layers.Concatenate(name=f"{name}_moments")([self.moments, moments])

    def concatenated(self, name: str) -> keras.KerasTensor:
        """All maps in one piece."""
        return keras.layers.Concatenate(name=name)(self.parts)

    def _moments(self, x, scope):
        return Moments(self.blocks.synchronized_batch_norm, name=f"{scope}_moments")(x)


def check_depth(depth: int) -> None:
    """Three blocks of n units with two convolutions make 6n + 4."""
    if depth < 10 or depth % 6 != 4:
        raise ValueError(
            "depth: expected 6n + 4 with n >= 1 (10, 16, 22, 28, ...), received "
            f"{depth!r}. Pass one of these."
        )
