"""Sizes from headers, against Pillow; and nothing but RequestError for anything else."""

import io
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from s2d_tf.serving import protocol
from s2d_tf.serving.limits import Limits, RequestError


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
    assert protocol.image_size(made, "x") == (height, width)
    # The size is known from the header alone, and a cut in it is noticed.
    for end in range(24):
        with pytest.raises(
            RequestError, match=r"damaged|empty|something|1 to 9 pixels, received 0"
        ):
            protocol.check_files([made[:end]], "x", Limits(image_pixels=9))


def test_padding_before_a_marker_is_allowed():
    made = content("JPEG")
    frame = made.index(b"\xff\xc0")
    assert protocol.image_size(made[:frame] + b"\xff\xff" + made[frame:], "x") == (21, 34)


@pytest.mark.parametrize("start", [b"GIF89a", b"BM", b"RIFF....WEBP", b"II*\0", b"<svg>", b"%PDF"])
def test_other_formats_are_rejected(start):
    with pytest.raises(RequestError, match=r"^x: expected a JPEG or PNG file, .* something else"):
        protocol.image_size(start + b"\0" * 100, "x")


def test_many_megabytes_of_junk_are_rejected_at_once():
    for junk in (b"\xff\xd8\xff\xe0\0\4ab" + b"\0" * (1 << 22), b"\xff\xd8" + b"\xff" * (1 << 22)):
        start = time.process_time()
        with pytest.raises(RequestError, match="received a damaged JPEG file"):
            protocol.image_size(junk, "x")
        assert time.process_time() - start < 2


@settings(max_examples=50)
@given(st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]), st.binary(max_size=200))
def test_garbage_raises_nothing_else(start, rest):
    try:
        height, width = protocol.image_size(start + rest, "x")
    except RequestError:
        return
    assert 0 <= height < 2**32
    assert 0 <= width < 2**32
