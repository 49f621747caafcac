"""Input conversion and shape checks that the numerical functions share."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from s2d_tf._types import TensorLike

# Below what the smallest concentration gives (about -5e8): it only keeps ln 0 out.
MIN_LOG_PROB = -1e9

BAD_INPUT = "bad input: "
"""Begins what `require` finds inside a graph."""


def require(condition: tf.Tensor | bool, *message: Any) -> None:
    """Rejects an argument, or input: now, or when the graph runs in which this is traced.

    Args:
        condition: what must hold.
        message: its parts, texts and tensors, joined by spaces.
    """
    if tf.is_symbolic_tensor(condition):
        tf.debugging.Assert(condition, [BAD_INPUT + message[0], *message[1:], "end"])
    elif not condition:
        raise ValueError(" ".join(str(getattr(part, "numpy", part.__str__)()) for part in message))


def as_float(value: TensorLike, name: str) -> tf.Tensor:
    """Converts to a float32 or float64 tensor.

    Both are kept as they are. Anything else (half precision, integers, Python numbers) becomes
    float32, because neither float16 nor bfloat16 can hold a concentration.
    """
    tensor = tf.convert_to_tensor(value, name=name)
    if tensor.dtype in (tf.float32, tf.float64):
        return tensor
    require(
        tensor.dtype.is_floating or tensor.dtype.is_integer,
        f"{name}: expected a numeric tensor, received dtype {tensor.dtype.name}. Convert "
        "it to float32 first.",
    )
    return tf.cast(tensor, tf.float32)


def check_classes(tensor: tf.Tensor, name: str) -> None:
    """Rejects a tensor whose last axis cannot be classes, as far as the static shape tells."""
    require(
        tensor.shape.rank is None or tensor.shape.rank >= 1,
        f"{name}: expected the shape [..., classes], received a scalar. Pass at least one row.",
    )
    require(
        tensor.shape.rank is None or tensor.shape[-1] is None or tensor.shape[-1] >= 2,
        f"{name}: expected at least 2 classes on the last axis, received the shape "
        f"{tuple(tensor.shape)}. Put the classes last.",
    )


def check_samples(tensor: tf.Tensor, name: str, samples: str = "samples") -> None:
    """Rejects a tensor that is not `[..., samples, classes]`, as far as the static shape tells."""
    rank = tensor.shape.rank
    require(
        rank is None or rank >= 2,
        f"{name}: expected the shape [..., {samples}, classes], received "
        f"{tuple(tensor.shape)}. Add an axis for the {samples}.",
    )
    require(
        rank is None or tensor.shape[-2] != 0,
        f"{name}: expected at least one of {samples} on axis -2, received the shape "
        f"{tuple(tensor.shape)}. Pass one or more.",
    )
    check_classes(tensor, name)


def normalized_log_probs(log_probs: TensorLike) -> tf.Tensor:
    """Log-probabilities in float64, normalized there.

    A float32 `log_softmax` sums to one only within about 1e-7. Total concentrations multiply that
    error, so a Dirichlet likelihood at 1e6 would already be off in the first decimal. A probability
    of exactly zero counts as exp(`MIN_LOG_PROB`).
    """
    log_probs = tf.nn.log_softmax(tf.cast(log_probs, tf.float64))
    return tf.maximum(log_probs, MIN_LOG_PROB)


def floor_at_zero(divergence: tf.Tensor) -> tf.Tensor:
    """Lifts a rounding error below zero to zero and leaves the gradient as it is."""
    return divergence + tf.stop_gradient(tf.nn.relu(-divergence))
