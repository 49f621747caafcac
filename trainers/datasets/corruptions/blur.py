"""Blur: defocus, glass, motion, zoom. Constants: `make_cifar_c.py`, severities 1 to 5."""

import collections

import numpy as np

from . import sampling
from .streams import Streams, stacked

DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))  # radius, blur of the disk
# sigma of the Gaussian, iterations; a pixel moves by at most 1 at every severity
GLASS = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
MOTION = ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5))  # radius, sigma
MOTION_DEGREES = 45
LARGEST_ZOOM = (1.06, 1.11, 1.16, 1.21, 1.26)  # excluded
ZOOM_STEP = 0.01


def defocus_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Correlates with a disk whose edge was softened by a Gaussian of 3x3 pixels."""
    del rngs
    return sampling.correlate(images / 255, disk(*DEFOCUS[severity - 1])) * 255


def disk(radius: float, softness: float) -> np.ndarray:
    """A disk of ones that sums to 1, blurred; 5x5 holds it for radii below 2."""
    places = np.arange(-2, 3)
    inside = np.add.outer(places**2, places**2) <= radius**2
    taps = np.exp(-(places[1:4] ** 2) / (2 * softness**2))
    taps /= taps.sum()
    disk = np.pad(inside / inside.sum(), 1)
    disk = sum(tap * disk[i : i + 5] for i, tap in enumerate(taps))
    return sum(tap * disk[:, i : i + 5] for i, tap in enumerate(taps))


def glass_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Blurs, moves pixels by chance to a neighbor above or to the left, and blurs again.

    The published loop means to swap a pixel with that neighbor. Since NumPy rows are views, it
    copies the neighbor and leaves it as it is. It runs from the lower right, so the neighbor has
    its old value, and a whole pass is one gather. The first two rows and columns stay.
    """
    sigma, iterations = GLASS[severity - 1]
    pixels = (sampling.gaussian(images / 255, sigma) * 255).astype(np.uint8)
    count, size = pixels.shape[:2]
    moves = stacked(lambda rng: rng.integers(-1, 1, (iterations, 2, size - 2, size - 2)), rngs)
    image = np.arange(count).reshape(-1, 1, 1)
    row, column = np.ogrid[2:size, 2:size]
    for step in range(iterations):
        moved = pixels[image, row + moves[:, step, 0], column + moves[:, step, 1]]
        pixels[:, 2:, 2:] = moved
    return sampling.gaussian(pixels / 255, sigma) * 255


def motion_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """ImageMagick's motion blur along an angle within 45 degrees of the horizontal."""
    radius, sigma = MOTION[severity - 1]
    degrees = stacked(lambda rng: rng.uniform(-MOTION_DEGREES, MOTION_DEGREES), rngs)
    return sampling.motion_blur(images, radius, sigma, degrees)


def zoom_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """The mean of the image and of its enlargements by 1.00, 1.01, ... up to the largest zoom."""
    del rngs
    factors = np.arange(1, LARGEST_ZOOM[severity - 1], ZOOM_STEP)
    # Sizes are whole numbers of pixels: several factors give the same enlargement.
    geometries = collections.Counter(
        sampling.zoom_geometry(images.shape[1], factor) for factor in factors
    )
    values = images / 255
    total = values.copy()
    for geometry, times in geometries.items():
        total += times * sampling.linear_zoom(values, *geometry)
    return total / (len(factors) + 1) * 255
