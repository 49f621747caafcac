"""Bad input is rejected before hours are spent on it, with one line that says what to do."""

import contextlib
import re

import keras
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
        raise ValueError(" ".join(str(getattr(part, "numpy", part.__str__)()) for part in message))


def check_images(images, image_shape, num_heads=1):
    """Rejects images of another shape, or with pixels that are not numbers."""
    expected = [tuple(image_shape)] + ([(num_heads, *image_shape)] if num_heads > 1 else [])
    received = tf.TensorShape(images.shape)
    if received.rank is None or not any(
        received[1:].is_compatible_with(tf.TensorShape(shape)) for shape in expected
    ):
        shapes = " or ".join(str(("batch", *shape)).replace("'", "") for shape in expected)
        hint = ": batch the dataset first" if received.is_compatible_with(image_shape) else ""
        raise ValueError(f"Expected images {shapes}, received the shape {received}{hint}.")
    if tf.as_dtype(images.dtype).is_floating:
        _require(
            tf.reduce_all(tf.math.is_finite(images)),
            "Expected finite pixels in [0, 255], received NaN or infinity: "
            "clean the images before they reach the model.",
        )


def check_labels(labels, num_classes, num_heads=1):
    """Rejects labels that are not class numbers, one for each image or head."""
    dtype, shape = tf.as_dtype(labels.dtype), tf.TensorShape(labels.shape)
    if not dtype.is_integer:
        raise ValueError(
            f"Expected integer labels in [0, {num_classes - 1}], received {dtype.name}: "
            "pass class numbers, not one-hot vectors."
        )
    accepted = [None], [None, 1], [None, num_heads]
    if not any(shape.is_compatible_with(tf.TensorShape(each)) for each in accepted):
        expected = "[batch]" if num_heads == 1 else f"[batch] or [batch, {num_heads}]"
        raise ValueError(
            f"Expected labels {expected}, received the shape {shape}: pass class numbers, not "
            "one-hot vectors."
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

    Arrays, and lists that become some, are checked at once. In a dataset the check runs in the
    input pipeline, beside the training step and not in it; what is distributed already, and a
    Python generator, is left as it is.
    """
    if isinstance(x, tf.data.Dataset):

        @tf.autograph.experimental.do_not_convert
        def pass_on(images, *rest):
            check(images, rest[0] if rest else None)
            return (images, *rest)

        return x.map(pass_on, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    if isinstance(x, (np.ndarray, tf.Tensor)):
        y = np.asarray(y) if isinstance(y, (list, tuple)) else y
        sizes = [len(x), *(len(part) for part in keras.tree.flatten(y) if hasattr(part, "shape"))]
        if min(sizes) == 0 or len(set(sizes)) > 1:
            raise ValueError(
                f"Expected images and as many targets, at least one; received {sizes[0]} images"
                + (f" and {', '.join(map(str, sizes[1:]))} targets." if sizes[1:] else ".")
            )
        check(tf.convert_to_tensor(x), keras.tree.map_structure(tf.convert_to_tensor, y))
    return x
