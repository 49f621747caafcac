"""Weather: snow, fog, brightness. Constants: `make_cifar_c.py`, severities 1 to 5.

Frost is not here: it overlays photographs. See `s2d_tf.trainers.datasets.corruption_names.NOT_GENERATED`.
"""

import numpy as np

from . import colors, sampling
from .streams import Streams, stacked

# mean and standard deviation of the flakes, zoom, threshold, radius and sigma of the motion blur,
# share of the image's own color
SNOW = (
    (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
)
SNOW_DEGREES = (-135, -45)
FOG = ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75))  # thickness, decay of the roughness
ROUGHNESS = 100.0
BRIGHTNESS = (0.05, 0.1, 0.15, 0.2, 0.3)


def snow(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Pales the image and adds flakes that fall, and the same flakes turned by 180 degrees."""
    mean, stddev, zoom, threshold, radius, sigma, own = SNOW[severity - 1]
    shape = images.shape[1:3]
    flakes = stacked(lambda rng: rng.normal(mean, stddev, shape), rngs)
    degrees = stacked(lambda rng: rng.uniform(*SNOW_DEGREES), rngs)
    flakes = sampling.clipped_zoom(flakes, zoom)
    flakes = np.where(flakes < threshold, 0, flakes)
    flakes = (np.clip(flakes, 0, 1) * 255).astype(np.uint8)
    flakes = sampling.motion_blur(flakes, radius, sigma, degrees)[..., np.newaxis] / 255
    values = images / 255
    pale = np.maximum(values, colors.luma(values)[..., np.newaxis] * 1.5 + 0.5)
    return (own * values + (1 - own) * pale + flakes + flakes[:, ::-1, ::-1]) * 255


def fog(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds a fractal cloud and rescales to the image's largest value."""
    thickness, decay = FOG[severity - 1]
    values = images / 255
    largest = values.max(axis=(1, 2, 3), keepdims=True)
    cloud = clouds(images.shape[1], decay, rngs)[..., np.newaxis]
    return (values + thickness * cloud) * largest / (largest + thickness) * 255


def clouds(size: int, decay: float, rngs: Streams) -> np.ndarray:
    """Height maps in [0, 1] by the diamond-square algorithm on a torus, [n, size, size].

    Fournier, Fussell and Carpenter, Computer rendering of stochastic models, 1982. `size` is a
    power of two. As published, a new point is a quarter of the sum of its four neighbors plus
    uniform noise within the square of a roughness that starts at 100 and is divided by `decay`.
    """
    # Points 2, 4, ... apart need three times as many new ones: centers, and two kinds of edges.
    draws = stacked(lambda rng: rng.uniform(-1, 1, size * size - 1), rngs)
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


def brightness(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds to the value of hue, saturation, value."""
    del rngs
    hue, saturation, value = colors.to_hsv(images / 255)
    value = np.clip(value + BRIGHTNESS[severity - 1], 0, 1)
    return colors.from_hsv(hue, saturation, value) * 255
