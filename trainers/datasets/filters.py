"""Filters, colors and maps that the corruptions share; all arrays are [images, rows, columns, ...].

Sums are elementwise and in float64, without BLAS, so that an image gets the same bits whatever
batch it is in.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy import ndimage

Streams = list[np.random.Generator]

ROUGHNESS = 100.0
EDGE_LOW, EDGE_HIGH = 50, 150
LARGEST_DISTANCE = 20
EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])
_BOX = np.ones((3, 3))
# Steps of a 5x5 chamfer distance and their lengths (Borgefors, 1986), in units of 2**-16 pixels.
_STEPS = (((0, 1), 1.0), ((1, 1), 1.4), ((1, 2), 2.1969))
_UNIT = 2**16
_FAR = 2**29
_TAN_22_5 = 13573  # times 2**15
_NEIGHBORS = np.stack([np.zeros((3, 3)), np.ones((3, 3)), np.zeros((3, 3))]).astype(bool)


def gaussian(
    values: np.ndarray, sigma: float, mode: str = "nearest", truncate: float = 4.0
) -> np.ndarray:
    """Gaussian filter over rows and columns; the defaults are those of scikit-image."""
    sigmas = (0, sigma, sigma) + (0,) * (values.ndim - 3)
    return ndimage.gaussian_filter(values, sigmas, mode=mode, truncate=truncate)


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
    kernel = kernel.reshape(1, *kernel.shape, *[1] * (values.ndim - 3))
    return ndimage.correlate(values.astype(float), kernel, mode="mirror")


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


def luma(rgb: np.ndarray) -> np.ndarray:
    """Rec. 601 luma, as OpenCV computes gray."""
    return 0.299 * rgb[..., 0] + 0.587 * rgb[..., 1] + 0.114 * rgb[..., 2]


def disk(radius: float, softness: float) -> np.ndarray:
    """A disk of ones that sums to 1, blurred; 5x5 holds it for radii below 2."""
    places = np.arange(-2, 3)
    inside = np.add.outer(places**2, places**2) <= radius**2
    taps = np.exp(-(places[1:4] ** 2) / (2 * softness**2))
    taps /= taps.sum()
    disk = np.pad(inside / inside.sum(), 1)
    disk = sum(tap * disk[i : i + 5] for i, tap in enumerate(taps))
    return sum(tap * disk[:, i : i + 5] for i, tap in enumerate(taps))


def affine_places(shifts: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
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


def clouds(size: int, decay: float, rngs: Streams) -> np.ndarray:
    """Height maps in [0, 1] by the diamond-square algorithm on a torus, [n, size, size].

    Fournier, Fussell and Carpenter, Computer rendering of stochastic models, 1982. `size` is a
    power of two. As published, a new point is a quarter of the sum of its four neighbors plus
    uniform noise within the square of a roughness that starts at 100 and is divided by `decay`.
    """
    # Points 2, 4, ... apart need three times as many new ones: centers, and two kinds of edges.
    draws = np.stack([rng.uniform(-1, 1, size * size - 1) for rng in rngs])
    heights = np.zeros((len(rngs), size, size))
    roughness, used, step = ROUGHNESS, 0, size

    def settle(neighbors):
        nonlocal used
        count = (size // step) ** 2
        noise = draws[:, used : used + count].reshape(neighbors.shape)
        used += count
        return neighbors / 4 + roughness**2 * noise

    while step >= 2:
        half = step // 2
        corners = heights[:, ::step, ::step]
        pairs = corners + np.roll(corners, -1, axis=1)
        centers = settle(pairs + np.roll(pairs, -1, axis=2))
        heights[:, half::step, half::step] = centers
        beside, below = np.roll(corners, -1, axis=2), np.roll(corners, -1, axis=1)
        across = centers + np.roll(centers, 1, axis=1) + corners + beside
        heights[:, ::step, half::step] = settle(across)
        along = centers + np.roll(centers, 1, axis=2) + corners + below
        heights[:, half::step, ::step] = settle(along)
        step, roughness = half, roughness / decay
    heights -= heights.min(axis=(1, 2), keepdims=True)
    return heights / heights.max(axis=(1, 2), keepdims=True)


def relief(liquid: np.ndarray) -> np.ndarray:
    """Thickness of the water from a uint8 map of liquid: high and lit at the edges of drops."""
    distance = np.minimum(edge_distance(edges(liquid)), LARGEST_DISTANCE)
    shape = (correlate(distance, _BOX) / 9).astype(np.float32).astype(np.uint8)
    shape = equalize(shape)
    shape = np.clip(correlate(shape, EMBOSS), 0, 255)
    return liquid * np.rint(correlate(shape, _BOX) / 9)


def edges(images: np.ndarray) -> np.ndarray:
    """Canny's edges of uint8 images, bool; gradients by 3x3 Sobel filters, in the L1 norm."""
    levels = images.astype(np.int64)
    padded = np.pad(levels, [(0, 0), (1, 1), (1, 1)], mode="edge")
    smooth_rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    smooth_columns = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    dx = smooth_rows[:, :, 2:] - smooth_rows[:, :, :-2]
    dy = smooth_columns[:, 2:] - smooth_columns[:, :-2]
    strength = np.abs(dx) + np.abs(dy)
    x, y = np.abs(dx) * _TAN_22_5, np.abs(dy) << 15
    around = np.pad(strength, [(0, 0), (1, 1), (1, 1)])

    def at(row, column):
        return around[:, 1 + row : 1 + row + levels.shape[1], 1 + column :][:, :, : levels.shape[2]]

    flat = (strength > at(0, -1)) & (strength >= at(0, 1))
    steep = (strength > at(-1, 0)) & (strength >= at(1, 0))
    falling = (strength > at(-1, -1)) & (strength > at(1, 1))
    rising = (strength > at(-1, 1)) & (strength > at(1, -1))
    diagonal = np.where((dx < 0) ^ (dy < 0), rising, falling)
    is_ridge = np.where(y < x, flat, np.where(y > x + (np.abs(dx) << 16), steep, diagonal))
    weak = is_ridge & (strength > EDGE_LOW)
    strong = weak & (strength > EDGE_HIGH)
    return ndimage.binary_propagation(strong, _NEIGHBORS, mask=weak)


def edge_distance(is_edge: np.ndarray) -> np.ndarray:
    """Chamfer distance to the nearest edge pixel; far beyond the image's size without edges."""
    distance = np.where(is_edge, 0, _FAR)
    rows, columns = is_edge.shape[1:]
    moves = {
        (sign_row * row, sign_column * column): round(length * _UNIT)
        for (short, long), length in _STEPS
        for row, column in ((short, long), (long, short))
        for sign_row in (1, -1)
        for sign_column in (1, -1)
    }
    previous = None
    while previous is None or not np.array_equal(previous, distance):
        previous = distance.copy()
        for (row, column), length in moves.items():
            here = distance[
                :, max(row, 0) : rows + min(row, 0), max(column, 0) : columns + min(column, 0)
            ]
            there = distance[
                :, max(-row, 0) : rows - max(row, 0), max(-column, 0) : columns - max(column, 0)
            ]
            np.minimum(here, there + length, out=here)
    return distance / _UNIT


def equalize(images: np.ndarray) -> np.ndarray:
    """Equalizes the histogram of each uint8 image; an image of one level stays as it is."""
    count, pixels = len(images), images[0].size
    flat = images.reshape(count, -1) + 256 * np.arange(count)[:, np.newaxis]
    histogram = np.bincount(flat.ravel(), minlength=256 * count).reshape(count, 256)
    first = np.argmax(histogram > 0, axis=1)[:, np.newaxis]
    at_first = np.take_along_axis(histogram, first, axis=1)
    rest = np.where(at_first == pixels, 1, pixels - at_first)
    table = np.rint((np.cumsum(histogram, axis=1) - at_first) * (255 / rest))
    table = np.where(at_first == pixels, np.arange(256), table)
    return table.ravel()[flat].reshape(images.shape).astype(np.uint8)
