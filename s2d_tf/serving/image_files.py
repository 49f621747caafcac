"""Encoded images in a request: their size is checked before anything is decoded."""

import tensorflow as tf

from s2d_tf.serving.errors import RequestError

_PNG_START = b"\x89PNG\r\n\x1a\n"
_JPEG_START = b"\xff\xd8\xff"


def check(contents, name, limits):
    """Rejects what is not an image, and images that claim too many pixels.

    Args:
        contents: list of bytes, one file each.
        name: the input's name, for messages.
        limits: `Limits` on the pixels.
    """
    total = 0
    for i, content in enumerate(contents):
        height, width = image_size(content, f"{name}[{i}]")
        if not 1 <= height * width <= limits.image_pixels:
            raise RequestError(
                f"{name}[{i}]: expected an image of 1 to {limits.image_pixels} pixels, received "
                f"{height} x {width}."
            )
        total += height * width
    most = max(limits.request_pixels, limits.image_pixels)
    if total > most:
        raise RequestError(
            f"{name}: expected at most {most} pixels in a request, received {total}: send fewer "
            "or smaller images."
        )


def image_size(content, name):
    """Height and width as a file's header claims them.

    Read in the same two ways as the exported graph does (export/encoded_images.py), so that both
    see one size. Not by Pillow, which decompresses text and skips junk, slowly, to get there.
    """
    if content.startswith(_PNG_START):
        return int.from_bytes(content[20:24], "big"), int.from_bytes(content[16:20], "big")
    try:
        height, width, _ = tf.image.extract_jpeg_shape(content).numpy().tolist()
        return height, width
    except tf.errors.InvalidArgumentError:
        damaged = "a damaged JPEG file" if content.startswith(_JPEG_START) else "something else"
        received = damaged if content else "an empty file"
        raise RequestError(f"{name}: expected a JPEG or PNG file, received {received}.") from None
