"""Blurs and resampling that several corruptions share; all arrays are [images, rows, columns, ...].

Sums are elementwise and in float64, without BLAS, so that an image gets the same bits whatever
batch it is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import ndimage


def gaussian(
    values: np.ndarray, sigma: float, mode: str = "nearest", truncate: float = 4.0
) -> np.ndarray:
    """Gaussian filter over rows and columns; the defaults are those of scikit-image."""
    sigmas = (0, sigma, sigma) + (0,) * (values.ndim - 3)
    return ndimage.gaussian_filter(values, sigmas, mode=mode, truncate=truncate)


def clipped_zoom(values: np.ndarray, factor: float) -> np.ndarray:
    """Enlarges the center by `factor` with linear interpolation and keeps the size."""
    return linear_zoom(values, *zoom_geometry(values.shape[1], factor))


def zoom_geometry(size: int, factor: float) -> tuple[int, int]:
    """Side of the central crop, and the side to which it is enlarged before it is trimmed."""
    crop = math.ceil(size / factor)
    return crop, round(crop * factor)


def linear_zoom(values: np.ndarray, crop: int, enlarged: int) -> np.ndarray:
    """The central `crop` enlarged to `enlarged` with both ends fixed, trimmed to the old size."""
    size = values.shape[1]
    top, trim = (size - crop) // 2, (enlarged - size) // 2
    place = (np.arange(size) + trim) * ((crop - 1) / (enlarged - 1))
    low = np.minimum(np.floor(place).astype(int), crop - 1)
    high = np.minimum(low + 1, crop - 1)
    weight = (place - low).reshape((-1,) + (1,) * (values.ndim - 2))
    for axis in (1, 2):
        at_low, at_high = values.take(top + low, axis), values.take(top + high, axis)
        values = at_low + (at_high - at_low) * (weight if axis == 1 else weight.squeeze(-1))
    return values


def motion_blur(values: np.ndarray, radius: int, sigma: float, degrees: np.ndarray) -> np.ndarray:
    """Blurs each image of gray levels 0 to 255 along its own angle and rounds, as ImageMagick does.

    MotionBlurImage of ImageMagick: half a Gaussian over 2 * radius + 1 pixels on one side, at
    places rounded to whole pixels; beyond the border the nearest pixel counts.
    """
    width = 2 * radius + 1
    steps = np.arange(width)
    weights = np.exp(-(steps**2) / (2 * sigma**2))
    weights /= weights.sum()
    height, breadth = values.shape[1:3]
    border = [(0, 0), (width, width), (width, width)] + [(0, 0)] * (values.ndim - 3)
    padded = np.pad(values, border, mode="edge")
    radians = np.radians(degrees)
    rows = width + np.ceil(np.multiply.outer(np.sin(radians), steps) - 0.5).astype(int)
    columns = width + np.ceil(np.multiply.outer(np.cos(radians), steps) - 0.5).astype(int)
    blurred = np.zeros(values.shape)
    for image, source, image_rows, image_columns in zip(
        blurred, padded, rows.tolist(), columns.tolist(), strict=True
    ):
        for weight, row, column in zip(weights, image_rows, image_columns, strict=True):
            image += weight * source[row : row + height, column : column + breadth]
    return np.floor(blurred + 0.5)


def correlate(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """2D correlation of rows and columns with a small odd kernel; the border is mirrored."""
    reach = kernel.shape[0] // 2
    height, breadth = values.shape[1:3]
    border = [(0, 0), (reach, reach), (reach, reach)] + [(0, 0)] * (values.ndim - 3)
    padded = np.pad(values, border, mode="reflect")
    total = np.zeros(values.shape)
    for (row, column), weight in np.ndenumerate(kernel):
        if weight:
            total += weight * padded[:, row : row + height, column : column + breadth]
    return total


def bilinear(
    images: np.ndarray,
    rows: np.ndarray,
    columns: np.ndarray,
    fold: Callable[[np.ndarray, int], np.ndarray],
) -> np.ndarray:
    """Images at fractional places.

    Args:
        images: [n, size, size, channels].
        rows, columns: [n, size, size].
        fold: function that maps whole places outside the image to places inside.
    """
    count, size = images.shape[:2]
    flat = images.reshape(count * size * size, -1)
    first = (np.arange(count) * size * size).reshape(-1, 1, 1)
    row, column = np.floor(rows).astype(int), np.floor(columns).astype(int)
    down, right = (rows - row)[..., np.newaxis], (columns - column)[..., np.newaxis]

    def at(row, column):
        return flat.take(first + fold(row, size) * size + fold(column, size), axis=0)

    top = at(row, column) * (1 - right) + at(row, column + 1) * right
    bottom = at(row + 1, column) * (1 - right) + at(row + 1, column + 1) * right
    return top * (1 - down) + bottom * down


def fold_mirror(place: np.ndarray, size: int) -> np.ndarray:
    """Mirrors at the centers of the border pixels: c b | a b c."""
    place = np.abs(place) % (2 * size - 2)
    return np.minimum(place, 2 * size - 2 - place)


def fold_reflect(place: np.ndarray, size: int) -> np.ndarray:
    """Mirrors at the outer edges of the border pixels: b a | a b c."""
    place = place % (2 * size)
    return np.minimum(place, 2 * size - 1 - place)
