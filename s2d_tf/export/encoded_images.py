"""JPEG and PNG files to pixels, inside the graph, with the checks that strangers' files need."""

from typing import Any

import tensorflow as tf

from s2d_tf._types import Shape
from s2d_tf.data.image_files import JPEG_START, PNG_START

MAX_PIXELS = 1 << 24
"""Largest image that is decoded, 4096 x 4096 or as much in another form: 48 MB in color. A file
of a few kilobytes can claim a thousand times that; its header is read before its pixels are."""

CHANNELS = (1, 3)
"""Channels that files can be decoded to: gray and RGB."""


def decode_batch(image_bytes: tf.Tensor, image_shape: Shape) -> tf.Tensor:
    """Pixels float32 `[batch, height, width, channels]` in [0, 255] of files `[batch]`.

    Colors become gray or gray becomes RGB as `image_shape` wants it, transparency is dropped, and
    the whole picture is resized with antialiasing; one of the right size already keeps its pixels.
    A damaged, oversized or foreign file fails the request.
    """
    return tf.map_fn(
        lambda encoded: _decode(encoded, image_shape),
        image_bytes,
        fn_output_signature=tf.TensorSpec(image_shape, tf.float32),
        parallel_iterations=4,  # so many decoded files are in memory at once
    )


def _decode(encoded, image_shape):
    *size, channels = image_shape
    is_jpeg = tf.equal(tf.strings.substr(encoded, 0, len(JPEG_START)), JPEG_START)
    is_png = tf.equal(tf.strings.substr(encoded, 0, len(PNG_START)), PNG_START)
    known = require(
        is_jpeg | is_png,
        "image_bytes: expected a JPEG or PNG file, received something else. Send one of these.",
    )
    with tf.control_dependencies([known]):
        is_jpeg = tf.identity(is_jpeg)
    pixels = tf.cond(
        is_jpeg, lambda: _decode_jpeg(encoded, channels), lambda: _decode_png(encoded, channels)
    )
    pixels.set_shape([None, None, channels])
    return tf.clip_by_value(tf.image.resize(pixels, size, antialias=True), 0.0, 255.0)


def _decode_jpeg(encoded, channels):
    height, width, components = tf.unstack(tf.image.extract_jpeg_shape(encoded))
    known = [_require_size(height, width)]
    if channels == 1:  # libjpeg has no way from four colors to gray
        message = "image_bytes: expected a gray or RGB JPEG file, received a CMYK one: convert it"
        known.append(require(components < 4, message))
    with tf.control_dependencies(known):
        # The accurate transform gives the same pixels on every machine.
        return tf.image.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE")


def _decode_png(encoded, channels):
    # Width and height are big-endian words at bytes 16 to 23. A file that ends before is padded
    # with zeros, and rejected for having no pixels.
    header = tf.strings.substr(tf.strings.join([encoded, b"\0" * 24]), 16, 8)
    width, height = tf.unstack(tf.ensure_shape(tf.io.decode_raw(header, tf.int32, False), [2]))
    with tf.control_dependencies([_require_size(height, width)]):
        return tf.image.decode_png(encoded, channels=channels)


def _require_size(height, width):
    pixels = tf.cast(height, tf.int64) * tf.cast(width, tf.int64)
    return require(
        (height > 0) & (width > 0) & (pixels <= MAX_PIXELS),
        f"image_bytes: expected an image of 1 to {MAX_PIXELS} pixels, received (height, width)",
        height,
        width,
    )


def require(condition: tf.Tensor, *message: Any) -> tf.Operation:
    """An operation that fails the request where the condition does not hold."""
    # tf.debugging.Assert would wrap this in a conditional.
    return tf.raw_ops.Assert(
        condition=condition, data=[tf.convert_to_tensor(part) for part in message], summarize=3
    )
