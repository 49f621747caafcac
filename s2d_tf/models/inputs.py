"""Bad input is rejected before hours are spent on it, with one line that says what to do.

The one place that tells kinds of input apart; what a model takes is its `Contract`.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Inputs
from s2d_tf.models.contract import Contract

_MARK = "bad input: "


@contextlib.contextmanager
def clear_errors() -> Iterator[None]:
    """Turns what a check found inside a graph into a `ValueError` of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(re.escape(_MARK) + r"(.*)\[end\]", str(error.message))
        if not found:
            raise
        raise ValueError(re.sub(r"\] \[", " ", found.group(1)).strip(" []")) from None


def require(condition: tf.Tensor, *message: Any) -> None:
    """Rejects input, now or when the graph runs in which this is traced."""
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [_MARK + message[0], *message[1:], "end"])
    elif not condition:
        raise ValueError(" ".join(str(getattr(part, "numpy", part.__str__)()) for part in message))


def check_backbone(backbone: Any, name: str = "backbone") -> None:
    """Rejects a network that does not end in a feature vector; `name` is the argument's."""
    if not isinstance(backbone, keras.Model) or not getattr(backbone, "inputs", None):
        raise ValueError(
            f"{name}: expected a functional keras.Model or a Sequential that starts with "
            f"keras.Input, received {type(backbone).__name__}. Build it from keras.Input."
        )
    shapes = [tuple(tensor.shape) for tensor in backbone.outputs]
    if len(shapes) != 1:
        raise ValueError(
            f"{name}: expected one output, a feature vector, received {len(shapes)} of shapes "
            f"{shapes}. Make a keras.Model that ends in the one you want."
        )
    if len(shapes[0]) != 2 or shapes[0][-1] is None:
        raise ValueError(
            f"{name}: expected feature vectors [batch, features] of a fixed size, received the "
            f"shape {shapes[0]}. Pool or flatten them first."
        )
    dtype = tf.as_dtype(backbone.outputs[0].dtype)
    if not dtype.is_floating:
        raise ValueError(
            f"{name}: expected feature vectors of floating-point numbers, received {dtype.name}. "
            "End it with keras.layers.Embedding and pooling, or with Dense."
        )


def check_inputs(inputs: Inputs, contract: Contract, num_heads: int = 1) -> None:
    """Rejects inputs of other names, types or shapes, and numbers that are none.

    Args:
        inputs: tensors of a batch, as the contract nests them.
        contract: what the model takes.
        num_heads: of a MIMO network, which also takes one image for each head.
    """
    for tensor, declared in zip(contract.flatten(inputs), contract.tensors, strict=True):
        _check_type(tensor, declared)
        _check_shape(tensor, declared, num_heads)
        _check_values(tensor, declared)


def cast(inputs: Inputs, contract: Contract, keep_arrays: bool = False) -> Inputs:
    """Checked inputs as the network takes them: numbers in float32, else in their own type.

    Args:
        inputs: arrays or tensors of a batch, as the contract nests them.
        contract: what the model takes.
        keep_arrays: whether arrays stay arrays, as an engine takes them.
    """
    flat = []
    for tensor, declared in zip(contract.flatten(inputs), contract.tensors, strict=True):
        dtype = declared.network_dtype
        if keep_arrays and isinstance(tensor, np.ndarray):
            tensor = tensor.astype(dtype.as_numpy_dtype, copy=False)
        elif dtype != tf.string:
            tensor = tf.cast(tensor, dtype)
        if declared.shape == (1,) and len(tensor.shape) == 1:
            tensor = tensor[:, None]  # as Keras does
        flat.append(tensor)
    return contract.pack(flat)


def ranges(inputs: Inputs, contract: Contract) -> list:
    """Pairs of the lowest and the highest value of each input; `None` for those of other types."""
    return [
        _bounds(tensor) if declared.is_float else None
        for tensor, declared in zip(contract.flatten(inputs), contract.tensors, strict=True)
    ]


def _bounds(tensor: Any) -> tuple[Any, Any]:
    if isinstance(tensor, np.ndarray):
        return tensor.min(), tensor.max()
    return tf.reduce_min(tensor), tf.reduce_max(tensor)


def warn_outside(model: Any, inputs: Inputs) -> None:
    """Warns once for each model of inputs that are clearly not what it was trained on."""
    if model.__dict__.get("_warned_outside") or len(model.contract.unknown) == len(
        model.contract.tensors
    ):
        return
    flat = model.contract.flatten(inputs)
    found = zip(flat, model.contract.tensors, ranges(inputs, model.contract), strict=True)
    for tensor, declared, bounds in found:
        if bounds is None or declared.range is None:
            continue
        low, high = (float(bound) for bound in bounds)
        if declared.is_clearly_outside(low, high, tf.as_dtype(tensor.dtype).is_integer):
            model.__dict__["_warned_outside"] = True
            lowest, highest = declared.range
            warnings.warn(
                f"{declared.name}: expected values as in training, from {lowest:g} to {highest:g}, "
                f"received {low:g} to {high:g}. Scale them as for training, or the answers mean "
                "nothing.",
                UserWarning,
                stacklevel=4,
            )
            return


def _check_type(tensor, declared):
    received, expected = tf.as_dtype(tensor.dtype), tf.as_dtype(declared.dtype)
    whole = received.is_integer or received.is_bool
    accepted = (
        received == tf.string
        if expected == tf.string
        else whole or (expected.is_floating and received.is_floating)
    )
    if not accepted:
        raise ValueError(
            f"{declared.name}: expected {expected.name}, received {received.name}. Convert the "
            "inputs first."
        )


def _check_shape(tensor, declared, num_heads):
    expected = [tuple(declared.shape)]
    expected += [(num_heads, *declared.shape)] if num_heads > 1 else []
    expected += [()] if declared.shape == (1,) else []
    if isinstance(tensor, np.ndarray) and tensor.shape[1:] in expected and tensor.ndim:
        return
    received = tf.TensorShape(tensor.shape)
    suits = [
        shape
        for shape in expected
        if received.rank is not None and received[1:].is_compatible_with(tf.TensorShape(shape))
    ]
    if not suits:
        what = "images" if declared.is_image else declared.name
        shapes = " or ".join(str(("batch", *shape)).replace("'", "") for shape in expected)
        hint = "Reshape them"
        if received.is_compatible_with(declared.shape):
            hint = "Batch the dataset first"
        elif declared.is_image and _is_channels_first(received, declared.shape):
            hint = "Transpose them to channels last"
        raise ValueError(f"x: expected {what} {shapes}, received the shape {received}. {hint}.")
    # Sizes that are known only when the batch comes.
    open_sizes = [
        i
        for i, size in enumerate(suits[0], start=1)
        if size is not None and received[i] is None and len(suits) == 1
    ]
    for i in open_sizes:
        size = tf.shape(tensor)[i]
        require(
            tf.equal(size, suits[0][i - 1]),
            f"{declared.name}: expected the size {suits[0][i - 1]} in dimension {i}, received",
            size,
            "(images are [batch, height, width, channels])." if declared.is_image else ".",
        )


def _is_channels_first(received, shape):
    *size, channels = shape
    return received.rank == 4 and received[1:].is_compatible_with([channels, *size])


def _check_values(tensor, declared):
    if tf.as_dtype(tensor.dtype).is_floating:
        finite = (
            np.isfinite(tensor).all()
            if isinstance(tensor, np.ndarray)
            else tf.reduce_all(tf.math.is_finite(tensor))
        )
        require(
            finite,
            f"{declared.expected}, received NaN or infinity. Clean the inputs before they reach "
            "the model.",
        )
    elif declared.bounded and tf.as_dtype(declared.dtype).is_integer and not declared.is_image:
        low, high = declared.range
        lowest, highest = _bounds(tensor)
        require(
            (tf.cast(lowest, tf.int64) >= int(low)) & (tf.cast(highest, tf.int64) <= int(high)),
            f"{declared.name}: expected numbers from {low:g} to {high:g}, received",
            lowest,
            "to",
            highest,
            "(the embedding has no others).",
        )


def pixel_statistics(
    name: str, values: Sequence[float] | None, contract: Contract
) -> tuple[float, ...] | None:
    """One number for each channel of an image model, or `None`."""
    if values is None:
        return None
    values = tuple(float(value) for value in np.atleast_1d(values))
    if contract.image is None:
        shapes = [tensor.shape for tensor in contract.tensors]
        raise ValueError(
            f"{name}: expected None for a model whose input is not one image, received {values} "
            f"for inputs of shapes {shapes}. Add keras.layers.Normalization to the backbone."
        )
    channels = contract.image.shape[-1]
    if len(values) != channels or (name == "stddev" and not min(values) > 0):
        positive = "positive " if name == "stddev" else ""
        raise ValueError(
            f"{name}: expected one {positive}number for each of {channels} channels, received "
            f"{values}. Compute them from the training images."
        )
    return values
