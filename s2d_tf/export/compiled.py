"""XLA inside a SavedModel, for the batch sizes that it was told of and no others.

XLA compiles a program for each batch size, in seconds. A server that compiled for whatever size
comes would stop to do so in the middle of its work, so only listed sizes are compiled (warm-up
requests do that while the model loads) and all others run as TensorFlow runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf

from s2d_tf.export.answers import OUTPUTS
from s2d_tf.export.warmup import MAX_COMPILED_SIZES


def check_sizes(batch_sizes: Sequence[int], specs: Sequence[tf.TensorSpec]) -> tuple[int, ...]:
    """The sizes in ascending order.

    Raises:
        ValueError: these are no sizes, too many, or the inputs are such that XLA cannot take.
    """
    sizes = tuple(sorted(set(batch_sizes)))
    whole = all(isinstance(size, int) and size > 0 for size in sizes)
    if not whole or len(sizes) > MAX_COMPILED_SIZES:
        raise ValueError(
            f"xla_batch_sizes: expected up to {MAX_COMPILED_SIZES} positive whole numbers, "
            f"received {list(batch_sizes)}. List the sizes that the server is allowed to batch to."
        )
    free = [spec for spec in specs if not spec.shape[1:].is_fully_defined()]
    texts = [spec for spec in specs if spec.dtype == tf.string]
    if sizes and (free or texts):
        raise ValueError(
            "xla_batch_sizes: expected none for a model of texts or of inputs of free size, which "
            f"XLA does not compile, received {list(sizes)} for {free + texts}. Leave them out."
        )
    return sizes


def by_size(
    plain: Callable, batch_sizes: tuple[int, ...], specs: list[tf.TensorSpec], message: str
) -> Callable:
    """A function that answers as `plain` does, compiled for batches of the listed sizes.

    Args:
        plain: a `tf.function` of `specs` that returns a dict of answers and fails no request.
        batch_sizes: of `check_sizes`.
        specs: of the inputs, the batch first.
        message: of the error where an answer is not a number; XLA cannot raise it.
    """
    # It calls the other, so that the weights are in the file once.
    compiled = tf.function(
        lambda *tensors: plain(*tensors), input_signature=specs, autograph=False, jit_compile=True
    )

    def checked(answers):
        numbers = {
            name: tf.debugging.check_numerics(value, message)
            for name, value in answers.items()
            if name in OUTPUTS
        }
        return {**answers, **numbers}

    def answer(*tensors):
        known = tf.reduce_any(tf.equal(tf.shape(tensors[0])[0], tf.constant(batch_sizes)))
        return tf.cond(known, lambda: checked(compiled(*tensors)), lambda: checked(plain(*tensors)))

    return answer
