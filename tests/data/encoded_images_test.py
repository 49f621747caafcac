"""JPEG and PNG files of any size and kind; damaged, foreign and oversized ones are refused."""

import io
import struct

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from s2d_tf.data import image_files


@pytest.fixture(scope="module")
def decode():
    """Compiled, as in a SavedModel: `decode(files, channels)`."""
    made = {}

    def run(files, channels=3):
        if channels not in made:
            spec = tf.TensorSpec([None], tf.string)
            made[channels] = tf.function(
                lambda f: image_files.decode_batch(f, (6, 8, channels)), input_signature=[spec]
            )
        return made[channels](tf.constant(files)).numpy()

    return run


def encode(pixels, mode="RGB", form="PNG", **options):
    buffer = io.BytesIO()
    Image.fromarray(pixels).convert(mode).save(buffer, form, **options)
    return buffer.getvalue()


def pictures(height, width):
    """A smooth picture: colour runs along both axes."""
    rows, columns = np.mgrid[0:height, 0:width]
    parts = [255 * rows / height, 255 * columns / width, 128 + 0 * rows]
    return np.stack(parts, axis=-1).astype(np.uint8)


def test_a_picture_of_the_right_size_keeps_its_pixels(decode):
    pixels = np.random.RandomState(0).randint(0, 256, [6, 8, 3]).astype(np.uint8)
    np.testing.assert_array_equal(decode([encode(pixels)])[0], pixels)


@pytest.mark.parametrize("size", [(6, 8), (60, 80), (61, 33), (3, 3), (1, 1), (200, 7)])
@pytest.mark.parametrize("form", ["PNG", "JPEG"])
def test_any_size_is_brought_to_the_models(decode, size, form):
    pixels = pictures(*size)
    content = encode(pixels, form=form, quality=95)
    found = decode([content])[0]
    assert found.shape == (6, 8, 3)
    assert found.min() >= 0
    assert found.max() <= 255
    # Pillow's reduction is antialiased too; enlarging is bilinear in both.
    expected = Image.open(io.BytesIO(content)).resize((8, 6), Image.Resampling.BILINEAR)
    np.testing.assert_allclose(found, np.asarray(expected, np.float32), atol=2.5)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "1", "I;16"])
def test_kinds_of_png(decode, mode):
    white = (
        np.full([6, 8], 65535, np.uint16) if mode == "I;16" else np.full([6, 8, 3], 255, np.uint8)
    )
    content = encode(white, mode)
    for channels in (1, 3):
        found = decode([content], channels)[0]
        np.testing.assert_allclose(found, np.full([6, 8, channels], 255.0))


def oversized_png(width, height):
    content = bytearray(encode(pictures(6, 8)))
    content[16:24] = struct.pack(">II", width, height)
    return bytes(content)


def oversized_jpeg(width, height):
    content = bytearray(encode(pictures(6, 8), form="JPEG"))
    frame = content.index(b"\xff\xc0")
    content[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(content)


PNG, JPEG = encode(pictures(30, 30)), encode(pictures(30, 30), form="JPEG")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (oversized_png(60_000, 60_000), "received .height, width.. .60000. .60000."),
        (oversized_png(2**31 - 1, 2**31 - 1), "expected an image of 1 to"),
        (oversized_png(2**32 - 1, 5), "expected an image of 1 to"),
        (oversized_png(0, 5), "expected an image of 1 to"),
        (oversized_jpeg(65_000, 65_000), "received .height, width.. .65000. .65000."),
        (b"", "expected a JPEG or PNG file"),
        (b"hello", "expected a JPEG or PNG file"),
        (b"GIF89a" + b"\0" * 50, "expected a JPEG or PNG file"),
        (b"BM" + b"\0" * 50, "expected a JPEG or PNG file"),
        (PNG[:8], "expected an image of 1 to"),
        (PNG[:20], "expected an image of 1 to"),
        (PNG[:60], "Invalid PNG"),
        (PNG[: len(PNG) // 2], "Invalid PNG"),
        (JPEG[:3], "JPEG"),
        (JPEG[: len(JPEG) - 80], "JPEG"),
    ],
)
def test_bad_files_fail_the_request(decode, content, message):
    with pytest.raises(tf.errors.InvalidArgumentError, match=message):
        decode([PNG, content])
    assert decode([PNG]).shape == (1, 6, 8, 3)


def test_four_colors_become_rgb_and_are_named_where_gray_is_wanted(decode):
    content = encode(pictures(6, 8), mode="CMYK", form="JPEG")
    assert decode([content]).shape == (1, 6, 8, 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match="RGB JPEG file, received a CMYK"):
        decode([content], channels=1)
    assert decode([JPEG], channels=1).shape == (1, 6, 8, 1)
