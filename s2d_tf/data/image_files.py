"""JPEG and PNG files: how to find and decode them, and what files from outside may cost.

A decoder that stays within the size that a header claims can still be kept busy for minutes by a
few megabytes, so `check` bounds the work before anything is decoded. `decode_batch` has checks of
its own, inside the graph of an exported model.
"""

import os
import pathlib
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from s2d_tf._types import Shape, Tensor, TensorLike
from s2d_tf.errors import UserError

SUFFIXES = (".jpg", ".jpeg", ".png")
PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"

MAX_CHUNKS = 1 << 16
"""Chunks of a PNG file. Most writers begin a new one every 8 kilobytes or later."""
MAX_COMPRESSED_TEXTS = 16
"""Compressed text and color profiles of a PNG file, which decoders inflate to 8 MB each."""
MAX_SCANS = 1000
MAX_SCANNED_PIXELS = 1 << 28
"""Passes over a JPEG image, and pixels of all together; progressive files have about 10."""

MAX_PIXELS = 1 << 24
"""Largest image that is decoded, 4096 x 4096 or as much in another form: 48 MB in color. A file
of a few kilobytes can claim a thousand times that; its header is read before its pixels are."""

CHANNELS = (1, 3)
"""Channels that files can be decoded to: gray and RGB."""

_STEP = 1 << 20
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # by PNG's color type
_COMPRESSED_TEXTS = (b"zTXt", b"iTXt", b"iCCP")


class ImageFileError(UserError):
    """A file is not a picture that can be decoded at a bounded cost."""


def find(folder: str | os.PathLike, suffixes: tuple[str, ...] = SUFFIXES) -> Iterator[pathlib.Path]:
    """Yields the image files in a folder and below it, sorted by path.

    Hidden files and folders are left out, and links to folders are not followed. Only the names of
    one folder at a time are in memory.

    Args:
        folder: where to look.
        suffixes: how the names end, in lower case.
    """
    visible = (entry for entry in os.scandir(str(folder)) if not entry.name.startswith("."))
    for entry in sorted(visible, key=lambda entry: entry.name):
        if entry.is_dir(follow_symlinks=False):
            yield from find(entry.path, suffixes)
        elif entry.name.lower().endswith(suffixes) and entry.is_file():
            yield pathlib.Path(entry.path)


def decode(encoded: TensorLike, channels: int = 3) -> Tensor:
    """A JPEG or PNG file as uint8 pixels, RGB or gray. Works in graphs.

    Raises:
        tf.errors.InvalidArgumentError: the file is damaged.
    """
    # In spite of its name the operation reads PNG, too. The accurate integer transform gives the
    # same pixels on every machine.
    return tf.io.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE")


def resize(pixels: TensorLike, size: TensorLike) -> Tensor:
    """Images of another size, antialiased, in uint8. Works in graphs."""
    return tf.saturate_cast(tf.round(tf.image.resize(pixels, size, antialias=True)), tf.uint8)


def check(content: bytes, max_pixels: int, name: str = "image") -> tuple[int, int]:
    """Rejects what is not an image, and images that would take too much to decode.

    Args:
        content: the file.
        max_pixels: height times width at most.
        name: what to call it in errors.

    Returns:
        Its height and width.

    Raises:
        ImageFileError: it is another kind of file, claims more pixels, or expands to far more than
            the pixels that it claims.
    """
    height, width = size(content, name)
    ImageFileError.unless(
        1 <= height * width <= max_pixels,
        f"{name}: expected an image of 1 to {max_pixels} pixels, received {height} x {width}."
        " Reduce it first.",
    )
    if content.startswith(PNG_START):
        _check_png(content, height, width, name)
    else:
        # In compressed data a byte of ones is followed by a zero: this is the marker, or a comment.
        scans = content.count(b"\xff\xda")
        ImageFileError.unless(
            scans <= MAX_SCANS and scans * height * width <= MAX_SCANNED_PIXELS,
            f"{name}: expected a JPEG file with a few passes over its pixels, received {scans} "
            f"of {height} x {width} pixels. Save it as a baseline JPEG.",
        )
    return height, width


def size(content: bytes, name: str = "image") -> tuple[int, int]:
    """Height and width as a file's header claims them.

    Read in the same two ways as `decode_batch` does, so that both see one size. Not by Pillow,
    which decompresses text and skips junk, slowly, to get there.
    """
    if content.startswith(PNG_START):
        return int.from_bytes(content[20:24], "big"), int.from_bytes(content[16:20], "big")
    try:
        height, width, _ = tf.image.extract_jpeg_shape(content).numpy().tolist()
        return height, width
    except tf.errors.InvalidArgumentError:
        damaged = "a damaged JPEG file" if content.startswith(JPEG_START) else "something else"
        received = damaged if content else "an empty file"
        raise ImageFileError(
            f"{name}: expected a JPEG or PNG file, received {received}. Save it in one of these "
            "formats."
        ) from None


def _check_png(content, height, width, name):
    """Inflates the pixels, and stops where there are more than the header says."""
    depth, color = content[24:25], content[25:26]
    bits = (depth[0] if depth else 8) * _SAMPLES.get(color[0] if color else 2, 4)
    # A byte before each row says how it is filtered; interlaced files have up to twice the rows.
    most = 2 * height * (1 + (width * bits + 7) // 8) + _STEP
    inflate, inflated, texts, chunks = zlib.decompressobj(), 0, 0, 0
    position = len(PNG_START)
    while position + 8 <= len(content):
        length, kind = struct.unpack_from(">I4s", content, position)
        data = content[position + 8 : position + 8 + length]
        position += length + 12
        chunks += 1
        texts += kind in _COMPRESSED_TEXTS
        while kind == b"IDAT" and data and not inflate.eof and inflated <= most:
            try:
                inflated += len(inflate.decompress(data, _STEP))
            except zlib.error:
                return  # The decoder says so, too.
            data = inflate.unconsumed_tail
        ImageFileError.unless(
            inflated <= most and texts <= MAX_COMPRESSED_TEXTS and chunks <= MAX_CHUNKS,
            f"{name}: expected a PNG file with at most {most} bytes for {height} x {width} "
            f"pixels, {MAX_COMPRESSED_TEXTS} compressed texts and {MAX_CHUNKS} chunks, received"
            f" {inflated} bytes, {texts} and {chunks} so far. Save the picture again.",
        )


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
