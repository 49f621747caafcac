"""Sizes from headers, against Pillow; and nothing but ImageFileError for anything else."""

import io
import struct
import time
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from s2d_tf.data import image_files


def content(form, height=21, width=34, mode="RGB", **options):
    buffer = io.BytesIO()
    pixels = np.random.RandomState(0).randint(0, 256, [height, width, 3]).astype(np.uint8)
    image = Image.fromarray(pixels)
    deep = Image.fromarray(pixels[..., 0].astype(np.uint16) * 257)
    (deep if mode == "I;16" else image.convert(mode)).save(buffer, form, **options)
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
    assert image_files.size(made, "x") == (height, width)
    # The size is known from the header alone, and a cut in it is noticed.
    for end in range(24):
        with pytest.raises(
            image_files.ImageFileError, match=r"damaged|empty|something|1 to 9 pixels, received 0"
        ):
            image_files.check(made[:end], max_pixels=9)


@pytest.mark.parametrize("start", [b"GIF89a", b"BM", b"RIFF....WEBP", b"II*\0", b"<svg>", b"%PDF"])
def test_other_formats_are_rejected(start):
    with pytest.raises(
        image_files.ImageFileError, match=r"^x: expected a JPEG or PNG file, .* something else"
    ):
        image_files.size(start + b"\0" * 100, "x")


def test_many_megabytes_of_junk_are_rejected_at_once():
    for junk in (b"\xff\xd8\xff\xe0\0\4ab" + b"\0" * (1 << 22), b"\xff\xd8" + b"\xff" * (1 << 22)):
        start = time.process_time()
        with pytest.raises(image_files.ImageFileError, match="received a damaged JPEG file"):
            image_files.size(junk, "x")
        assert time.process_time() - start < 2


@settings(max_examples=50)
@given(st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]), st.binary(max_size=200))
def test_garbage_raises_nothing_else(start, rest):
    try:
        height, width = image_files.size(start + rest, "x")
    except image_files.ImageFileError:
        return
    assert 0 <= height < 2**32
    assert 0 <= width < 2**32


def chunk(kind, data):
    crc = zlib.crc32(kind + data)
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", crc)


def png(pixels, *others, size=(32, 32)):
    """A PNG file whose compressed pixels, and chunks before them, are given."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", *size[::-1], 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + b"".join([header, *others, *pixels, chunk(b"IEND", b"")])


def inflating(megabytes):
    """Compressed zeros, a thousandth of their size."""
    compress, zeros = zlib.compressobj(9), bytes(1 << 20)
    return b"".join([*(compress.compress(zeros) for _ in range(megabytes)), compress.flush()])


def test_pixels_that_inflate_to_more_than_the_header_says_are_rejected():
    bomb = png([chunk(b"IDAT", inflating(300))])
    assert len(bomb) < 400_000
    start = time.process_time()
    with pytest.raises(
        image_files.ImageFileError, match=r"32 x 32 pixels, .* received 2\d{6} bytes"
    ):
        image_files.check(bomb, 2000)
    assert time.process_time() - start < 0.1
    # Also in many chunks, of which each is small.
    data = inflating(300)
    parts = [chunk(b"IDAT", data[i : i + 10_000]) for i in range(0, len(data), 10_000)]
    with pytest.raises(image_files.ImageFileError, match=r"received 2\d{6} bytes"):
        image_files.check(png(parts), 2000)


def test_other_ways_to_keep_a_decoder_busy_are_rejected():
    text = chunk(b"zTXt", b"k\0\0" + inflating(8))
    with pytest.raises(image_files.ImageFileError, match=r"16 compressed texts .* 0 bytes, 17 and"):
        image_files.check(png([], *[text] * 17), 2000)
    with pytest.raises(image_files.ImageFileError, match="0 bytes, 0 and 65537 so far"):
        image_files.check(png([chunk(b"IDAT", b"")] * 70_000), 2000)
    photo = content("JPEG", progressive=True)
    scan = photo.index(b"\xff\xda")
    many = photo[:scan] + photo[scan:-2] * 300 + photo[-2:]
    with pytest.raises(image_files.ImageFileError, match="a few passes over its pixels"):
        image_files.check(many, 2000)


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "LA", "P", "1", "I;16"])
@pytest.mark.parametrize("height", [1, 21, 700])
def test_honest_files_of_every_kind_pass(mode, height):
    forms = [("PNG", {}), ("PNG", {"compress_level": 0})]
    if mode in ("RGB", "L"):
        forms += [("JPEG", {}), ("JPEG", {"progressive": True, "quality": 100})]
    for form, options in forms:
        made = content(form, height, 500, mode, **options)
        assert image_files.check(made, 1 << 20) == (height, 500)
