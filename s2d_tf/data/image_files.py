"""JPEG and PNG files: how to find and decode them, and what files from outside may cost.

A decoder that stays within the size that a header claims can still be kept busy for minutes by a
few megabytes, so `check` bounds the work before anything is decoded.
"""

import os
import pathlib
import struct
import zlib
from collections.abc import Iterator

from s2d_tf._types import Tensor, TensorLike
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
    import tensorflow as tf

    # In spite of its name the operation reads PNG, too. The accurate integer transform gives the
    # same pixels on every machine.
    return tf.io.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE")


def resize(pixels: TensorLike, size: TensorLike) -> Tensor:
    """Images of another size, antialiased, in uint8. Works in graphs."""
    import tensorflow as tf

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

    Read in the same two ways as the exported graph does (export/encoded_images.py), so that both
    see one size. Not by Pillow, which decompresses text and skips junk, slowly, to get there.
    """
    import tensorflow as tf

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
