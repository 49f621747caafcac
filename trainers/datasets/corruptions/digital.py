"""Digital: contrast, elastic, pixelate, JPEG. Constants: `make_cifar_c.py`, severities 1 to 5."""

import io

import numpy as np
from PIL import Image

from . import sampling
from .streams import Streams, stacked

CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
# In units of the image's side: strength and smoothness of the displacement, shift of the corners.
ELASTIC = (
    (0, 0, 0.08),
    (0.05, 0.2, 0.07),
    (0.08, 0.06, 0.06),
    (0.1, 0.04, 0.05),
    (0.1, 0.03, 0.03),
)
PIXELATE = (0.95, 0.9, 0.85, 0.75, 0.65)
JPEG_QUALITY = (80, 65, 58, 50, 40)


def contrast(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Moves every value toward the mean of its image and channel."""
    del rngs
    values = images / 255
    # Whole numbers are summed exactly, whatever the order.
    means = images.sum(axis=(1, 2), keepdims=True, dtype=np.int64) / (images[0, ..., 0].size * 255)
    return ((values - means) * CONTRAST[severity - 1] + means) * 255


def elastic_transform(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """A random affine map, then a smooth random displacement of every pixel."""
    size = images.shape[1]
    strength, smoothness, shift = (size * constant for constant in ELASTIC[severity - 1])
    corners = stacked(lambda rng: rng.uniform(-shift, shift, (3, 2)), rngs)
    displacements = stacked(lambda rng: rng.uniform(-1, 1, (2, size, size)), rngs)
    places = _affine(corners, size)
    values = sampling.bilinear(images / 255, places[0], places[1], sampling.fold_mirror)
    columns, rows = (
        place + strength * sampling.gaussian(displacement, smoothness, "reflect", truncate=3)
        for place, displacement in zip(
            np.meshgrid(np.arange(size), np.arange(size)),
            np.moveaxis(displacements, 1, 0),
            strict=True,
        )
    )
    return sampling.bilinear(values, rows, columns, sampling.fold_reflect) * 255


def _affine(shifts, size):
    """Rows and columns that each pixel is taken from when three points move by `shifts`.

    The points are the right lower, right upper and left upper corner of a square around the center
    with sides of two thirds. A pixel is `upper + a * (lower - upper) + b * (upper - left)` of the
    moved points; it is taken from the same combination of the points that did not move.
    """
    center, reach = size // 2, size // 3
    near, far = center - reach, center + reach
    lower, upper, left = np.moveaxis(
        np.array([[far, far], [far, near], [near, near]]) + shifts, 1, 0
    )
    down, across = (lower - upper).T, (upper - left).T
    down, across, start = (v.reshape(2, -1, 1, 1) for v in (down, across, upper.T))
    column, row = np.meshgrid(np.arange(size), np.arange(size))
    x, y = column - start[0], row - start[1]
    area = down[0] * across[1] - down[1] * across[0]
    a = (x * across[1] - y * across[0]) / area
    b = (down[0] * y - down[1] * x) / area
    return near + 2 * reach * a, far + 2 * reach * b


def pixelate(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Reduces the image with a box filter and enlarges it again."""
    del rngs
    size = images.shape[1]
    small = int(size * PIXELATE[severity - 1])
    box = Image.Resampling.BOX
    return np.stack([
        np.asarray(Image.fromarray(i).resize((small, small), box).resize((size, size), box))
        for i in images
    ])  # fmt: skip


def jpeg_compression(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Writes the image as JPEG and reads it again."""
    del rngs
    return np.stack([_jpeg(image, JPEG_QUALITY[severity - 1]) for image in images])


def _jpeg(image, quality):
    file = io.BytesIO()
    Image.fromarray(image).save(file, "JPEG", quality=quality)
    return np.asarray(Image.open(file, formats=["JPEG"]))
