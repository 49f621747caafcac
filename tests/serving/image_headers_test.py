"""Sizes from headers, against Pillow; and nothing but ValueError for anything else."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from s2d_tf.serving.image_headers import image_size


def content(form, height=21, width=34, mode="RGB", **options):
    buffer = io.BytesIO()
    pixels = np.random.RandomState(0).randint(0, 256, [height, width, 3]).astype(np.uint8)
    Image.fromarray(pixels).convert(mode).save(buffer, form, **options)
    return buffer.getvalue()


def orientation():
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "x" * 5_000
    return exif


@pytest.mark.parametrize(
    "made",
    [
        content("PNG"),
        content("PNG", 1, 3_000, "L"),
        content("PNG", mode="P"),
        content("JPEG"),
        content("JPEG", 500, 2, "L"),
        content("JPEG", progressive=True),
        content("JPEG", exif=orientation()),
        content("JPEG", comment=b"\xff\xc0 not a frame"),
        content("JPEG", mode="CMYK"),
    ],
)
def test_sizes_are_those_of_pillow(made):
    width, height = Image.open(io.BytesIO(made)).size
    assert image_size(made) == (height, width)
    # The size is known from the header alone, and a cut in it is noticed.
    for end in range(0, 24):
        with pytest.raises(ValueError, match=r"damaged|empty|something"):
            image_size(made[:end])


def test_padding_before_a_marker_is_allowed():
    made = content("JPEG")
    frame = made.index(b"\xff\xc0")
    assert image_size(made[:frame] + b"\xff\xff" + made[frame:]) == (21, 34)


@pytest.mark.parametrize("start", [b"GIF89a", b"BM", b"RIFF....WEBP", b"II*\0", b"<svg>", b"%PDF"])
def test_other_formats_are_refused(start):
    with pytest.raises(ValueError, match="something else"):
        image_size(start + b"\0" * 100)


@given(st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8"]), st.binary(max_size=200))
def test_garbage_raises_nothing_else(start, rest):
    try:
        height, width = image_size(start + rest)
    except ValueError:
        return
    assert 0 <= height < 2**32
    assert 0 <= width < 2**32
