"""The four extra corruptions: speckle noise, gaussian blur, spatter, saturate.

Constants: `make_cifar_c.py`, severities 1 to 5.
"""

import numpy as np

from . import colors, droplets, sampling
from .noise import normals
from .streams import Streams, stacked

SPECKLE_STDDEV = (0.06, 0.1, 0.12, 0.16, 0.2)
BLUR_SIGMA = (0.4, 0.6, 0.7, 0.8, 1)
# mean and standard deviation of the liquid, its smoothness, threshold, strength (water) or
# smoothness (mud) of the drops, whether it is mud
SPATTER = (
    (0.62, 0.1, 0.7, 0.7, 0.5, False),
    (0.65, 0.1, 0.8, 0.7, 0.5, False),
    (0.65, 0.3, 1, 0.69, 0.5, False),
    (0.65, 0.1, 0.7, 0.69, 0.6, True),
    (0.65, 0.1, 0.5, 0.68, 0.6, True),
)
WATER = (175, 238, 238)
MUD = (63, 42, 20)
MUD_OPACITY = 0.8  # thinner mud is not drawn
SATURATE = ((0.3, 0), (0.1, 0), (1.5, 0), (2, 0.1), (2.5, 0.2))  # factor, then added


def speckle_noise(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Adds normal noise in proportion to the value."""
    values = images / 255
    return (values + values * SPECKLE_STDDEV[severity - 1] * normals(images, rngs)) * 255


def gaussian_blur(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Blurs with a Gaussian."""
    del rngs
    return sampling.gaussian(images / 255, BLUR_SIGMA[severity - 1]) * 255


def spatter(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Drops of water (severity 1 to 3) or mud (4 and 5) on the lens."""
    mean, stddev, smoothness, threshold, drops, is_mud = SPATTER[severity - 1]
    liquid = stacked(lambda rng: rng.normal(mean, stddev, images.shape[1:3]), rngs)
    liquid = sampling.gaussian(liquid, smoothness)
    liquid = np.where(liquid < threshold, 0, liquid)
    if is_mud:
        opacity = sampling.gaussian((liquid > threshold).astype(float), drops)
        opacity = np.where(opacity < MUD_OPACITY, 0, opacity)[..., np.newaxis]
        return images * (1 - opacity) + opacity * np.array(MUD)
    thickness = droplets.relief((liquid * 255).astype(np.uint8))
    largest = thickness.max(axis=(1, 2), keepdims=True)
    thickness = drops * thickness / np.where(largest == 0, 1, largest)
    return images + thickness[..., np.newaxis] * np.array(WATER)


def saturate(images: np.ndarray, severity: int, rngs: Streams) -> np.ndarray:
    """Scales and shifts the saturation of hue, saturation, value; severities 1 and 2 reduce it."""
    del rngs
    factor, added = SATURATE[severity - 1]
    hue, saturation, value = colors.to_hsv(images / 255)
    saturation = np.clip(saturation * factor + added, 0, 1)
    return colors.from_hsv(hue, saturation, value) * 255
