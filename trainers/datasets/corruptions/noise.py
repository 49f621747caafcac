"""Noise: gaussian, shot, impulse. Constants: `make_cifar_c.py`, one per severity 1 to 5.

Every corruption, here and beside, takes uint8 images [n, 32, 32, 3], a severity and one random
generator per image, and returns gray levels, which `corrupt` clips and truncates to uint8.
"""

import numpy as np

from .streams import Streams, stacked

GAUSSIAN_STDDEV = (0.04, 0.06, 0.08, 0.09, 0.10)
PHOTONS = (500, 250, 100, 75, 50)  # shot noise: photons that make a white pixel
IMPULSE_SHARE = (0.01, 0.02, 0.03, 0.05, 0.07)


def gaussian_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds normal noise of one size to every value."""
    return (images / 255 + GAUSSIAN_STDDEV[severity - 1] * normals(images, rngs)) * 255


def shot_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Counts photons: a Poisson number whose mean is proportional to the value."""
    photons = PHOTONS[severity - 1]
    means = images / 255 * photons
    counts = [rng.poisson(mean) for rng, mean in zip(rngs, means, strict=True)]
    return np.stack(counts) / photons * 255


def impulse_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Sets a share of the values to 0 or 255; each color channel by itself, as scikit-image."""
    draws = stacked(lambda rng: rng.random((2, *images.shape[1:])), rngs)
    extreme = np.where(draws[:, 1] <= 0.5, np.uint8(255), np.uint8(0))
    return np.where(draws[:, 0] <= IMPULSE_SHARE[severity - 1], extreme, images)


def normals(images: np.ndarray, rngs: Streams) -> np.ndarray:
    """Standard normal numbers in the shape of the images."""
    return stacked(lambda rng: rng.standard_normal(images.shape[1:]), rngs)
