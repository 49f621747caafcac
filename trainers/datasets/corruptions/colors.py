"""Hue, saturation and value, and luma, of RGB values in [0, 1]."""

import numpy as np


def to_hsv(rgb: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Hue, saturation and value, each in [0, 1] and without the last axis; gray has hue 0."""
    red, green, blue = np.moveaxis(rgb, -1, 0)
    value = rgb.max(axis=-1)
    chroma = value - rgb.min(axis=-1)
    divisor = np.where(chroma == 0, 1, chroma)
    sector = np.where(
        blue == value,
        4 + (red - green) / divisor,
        np.where(green == value, 2 + (blue - red) / divisor, (green - blue) / divisor),
    )
    hue = np.where(chroma == 0, 0, sector / 6 % 1)
    return hue, chroma / np.where(value == 0, 1, value), value


def from_hsv(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """RGB on a new last axis."""
    sector = np.floor(hue * 6)
    rest = hue * 6 - sector
    low = value * (1 - saturation)
    falling = value * (1 - rest * saturation)
    rising = value * (1 - (1 - rest) * saturation)
    sector = sector.astype(int) % 6
    red = np.choose(sector, [value, falling, low, low, rising, value])
    green = np.choose(sector, [rising, value, value, falling, low, low])
    blue = np.choose(sector, [low, low, rising, value, value, falling])
    return np.stack([red, green, blue], axis=-1)


def luma(rgb: np.ndarray) -> np.ndarray:
    """Rec. 601 luma, as OpenCV computes gray."""
    return 0.299 * rgb[..., 0] + 0.587 * rgb[..., 1] + 0.114 * rgb[..., 2]
