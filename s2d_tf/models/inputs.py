"""Bad input is refused before hours are spent on it, with one line that says what to do."""

import contextlib
import re

import numpy as np
import tensorflow as tf

_MARK = "bad input: "


@contextlib.contextmanager
def clear_errors():
    """Turns what a check found inside a graph into a `ValueError` of one line."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        found = re.search(re.escape(_MARK) + r"(.*)\[end\]", str(error.message))
        if not found:
            raise
        raise ValueError(re.sub(r"\] \[", " ", found.group(1)).strip(" []")) from None


def _require(condition, *message):
    if not tf.executing_eagerly():
        tf.debugging.Assert(condition, [_MARK + message[0], *message[1:], "end"])
    elif not condition:
        raise ValueError(" ".join(str(getattr(part, "numpy", lambda: part)()) for part in message))


def check_images(images, image_shape, num_heads=1):
    """Refuses images of another shape, or with pixels that are not numbers."""
    expected = [tuple(image_shape)] + ([(num_heads, *image_shape)] if num_heads > 1 else [])
    if tuple(images.shape[1:]) not in expected:
        shapes = " or ".join(str(("batch", *shape)).replace("'", "") for shape in expected)
        raise ValueError(f"Expected images {shapes}, received the shape {tuple(images.shape)}.")
    if tf.as_dtype(images.dtype).is_floating:
        _require(
            tf.reduce_all(tf.math.is_finite(images)),
            "Expected finite pixels in [0, 255], received NaN or infinity: "
            "clean the images before they reach the model.",
        )


def check_labels(labels, num_classes):
    """Refuses labels that are not class numbers."""
    dtype = tf.as_dtype(labels.dtype)
    if not dtype.is_integer:
        raise ValueError(
            f"Expected integer labels in [0, {num_classes - 1}], received {dtype.name}: "
            "pass class numbers, not one-hot vectors."
        )
    lowest, highest = tf.reduce_min(labels), tf.reduce_max(labels)
    _require(
        (lowest >= 0) & (highest < num_classes),
        f"Expected labels in [0, {num_classes - 1}], received values from",
        lowest,
        "to",
        highest,
        "(remove unlabelled examples, or raise num_classes).",
    )


def checked(x, y, check):
    """Data for `fit` in which every batch passes `check(images, labels)` before it is used.

    Arrays are checked at once. In a dataset the check runs in the input pipeline, beside the
    training step and not in it; what is distributed already is left as it is.
    """
    if isinstance(x, tf.data.Dataset):

        @tf.autograph.experimental.do_not_convert
        def pass_on(images, *rest):
            check(images, rest[0] if rest else None)
            return (images, *rest)

        return x.map(pass_on, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if isinstance(x, (np.ndarray, tf.Tensor)):
        check(tf.convert_to_tensor(x), None if y is None else tf.convert_to_tensor(y))
    return x
