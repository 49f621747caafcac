"""The relief of water drops in `spatter`, with the steps of OpenCV that the published code calls.

All images are [n, rows, columns].
"""

import numpy as np
from scipy import ndimage

from . import sampling

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


def relief(liquid: np.ndarray) -> np.ndarray:
    """Thickness of the water from a uint8 map of liquid: high and lit at the edges of drops."""
    distance = np.minimum(edge_distance(edges(liquid)), LARGEST_DISTANCE)
    shape = (sampling.correlate(distance, _BOX) / 9).astype(np.float32).astype(np.uint8)
    shape = equalize(shape)
    shape = np.clip(sampling.correlate(shape, EMBOSS), 0, 255)
    return liquid * np.rint(sampling.correlate(shape, _BOX) / 9)


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
