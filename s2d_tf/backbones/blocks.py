"""What backbones are made of: convolution, batch norm with ReLU, dropout, and argument checks.

Layer names, their order and the shapes of their variables are a file format: weights files depend
on them. A change here that renames a layer makes published weights unreadable.
"""

from __future__ import annotations

import hashlib
import math
import operator
from collections.abc import Callable

import keras

from s2d_tf._types import Shape
from s2d_tf.backbones.batch_norm import BatchNormalization
from s2d_tf.backbones.shared_statistics import Moments, NormalizedConv2D, SharedBatchNormalization
from s2d_tf.layers import Dropout

# The original authors' batch norm; torch's momentum 0.1 is 0.9 in the sense of Keras.
BATCH_NORM_MOMENTUM = 0.9
BATCH_NORM_EPSILON = 1e-5


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
            kernel_initializer=self._initializer(name),
            name=name,
        )(x)

    def norm_relu(
        self, x: keras.KerasTensor, scope: str, index: int | str = ""
    ) -> keras.KerasTensor:
        """Batch norm `<scope>_bn<index>`, then ReLU `<scope>_relu<index>`."""
        x = BatchNormalization(
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            synchronized=self.synchronized_batch_norm,
            name=f"{scope}_bn{index}",
        )(x)
        return keras.layers.Activation("relu", name=f"{scope}_relu{index}")(x)

    def moments(self, x: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Batch mean and variance of each channel, for `shared_norm_relu_conv1x1`."""
        return Moments(self.synchronized_batch_norm, name=name)(x)

    def shared_norm_relu_conv1x1(
        self,
        maps: list[keras.KerasTensor],
        moments: keras.KerasTensor,
        filters: int,
        scope: str,
        index: int | str = "",
    ) -> keras.KerasTensor:
        """`<scope>_bn<index>` with the moments of all `maps`, ReLU, `<scope>_conv<index>`."""
        statistics = SharedBatchNormalization(
            momentum=BATCH_NORM_MOMENTUM,
            epsilon=BATCH_NORM_EPSILON,
            synchronized=self.synchronized_batch_norm,
            name=f"{scope}_bn{index}",
        )(moments)
        name = f"{scope}_conv{index}"
        return NormalizedConv2D(
            filters,
            1,
            epsilon=BATCH_NORM_EPSILON,
            kernel_initializer=self._initializer(name),
            name=name,
        )(maps, statistics)

    def _initializer(self, name):
        return keras.initializers.VarianceScaling(
            2.0, self.fan, "untruncated_normal", seed=layer_seed(self.seed, name)
        )

    def dropout(self, x: keras.KerasTensor, name: str) -> keras.KerasTensor:
        """Dropout, or `x` itself when the rate is 0."""
        if self.rate == 0:
            return x
        return Dropout(self.rate, seed=layer_seed(self.seed, name), name=name)(x)


def check_positive_integer(name: str, value: int) -> int:
    """Returns `value` as an int; raises a ValueError unless it is at least 1."""
    try:
        number = operator.index(value)
    except TypeError:
        number = 0
    if number < 1:
        raise ValueError(
            f"{name}: expected a positive integer, received {value!r}. Pass a whole number "
            "of at least 1."
        )
    return number


def check_depth(depth: int) -> int:
    """Returns `depth` as an int; three blocks of n units with two convolutions make 6n + 4."""
    depth = check_positive_integer("depth", depth)
    if depth < 10 or (depth - 4) % 6:
        raise ValueError(
            f"depth: expected 6n + 4 with n >= 1 (10, 16, 22, 28, ...), received {depth}. "
            "Choose one of these."
        )
    return depth


def check_input_shape(input_shape: Shape, free_size: bool = False) -> Shape:
    """Returns (height, width, channels) as ints; with `free_size` the first two may be None."""
    try:
        height, width, channels = input_shape
        free = [1 if free_size and size is None else size for size in (height, width)]
        sizes = [operator.index(size) for size in (*free, channels)]
    except (TypeError, ValueError):
        sizes = [0]
    if min(sizes) < 1:
        raise ValueError(
            "input_shape: expected (height, width, channels), three positive integers "
            f"without the batch, received {input_shape!r}. Pass the shape of one image."
        )
    return tuple(None if size is None else int(size) for size in input_shape)


def check_number(name: str, value: float, expected: str, holds: Callable[[float], bool]) -> float:
    """Returns `value` as a float; raises a ValueError unless it is a number that `holds`."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        number = math.nan  # which no range contains
    if not holds(number):
        raise ValueError(
            f"{name}: expected a number {expected}, received {value!r}. Pass a number in "
            "this range."
        )
    return number


def check_dropout(dropout: float) -> float:
    """Returns `dropout` as a float; raises a ValueError unless 0 <= dropout < 1."""
    return check_number("dropout", dropout, "in [0, 1)", lambda rate: 0.0 <= rate < 1.0)


def check_seed(seed: int | None) -> int | None:
    """Returns `seed` as an int or None."""
    try:
        return None if seed is None else operator.index(seed)
    except TypeError:
        raise ValueError(
            f"seed: expected an integer or None, received {seed!r}. Pass None for random weights."
        ) from None
