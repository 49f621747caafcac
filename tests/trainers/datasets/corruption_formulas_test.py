"""The corruptions against second implementations of the published formulas."""

import colorsys
import hashlib
import itertools
import math

import numpy as np
import pytest
from scipy import ndimage

from s2d_tf.trainers.datasets import SEVERITIES, filters
from s2d_tf.trainers.datasets.corruptions import CORRUPTIONS, corrupt


def _rng(name, severity, index, seed=0):
    key = hashlib.blake2b(f"{seed}/{name}/{severity}/{index}".encode(), digest_size=16).digest()
    return np.random.Generator(np.random.Philox(key=int.from_bytes(key, "little")))


def _assert_same(received, expected):
    """Equal gray levels, where a value within rounding of a whole level may truncate to either."""
    low, high = (np.floor(np.clip(expected + e, 0, 255)) for e in (-1e-6, 1e-6))
    assert np.all((low <= received) & (received <= high))
    assert np.std(received) > 1


class TestPublishedFormulas:
    """Written again in another way: single images, loops, other functions."""

    def test_noise_has_the_published_size(self, images):
        gray = np.full([64, 32, 32, 3], 128, np.uint8)
        noisy = {n: corrupt(gray, n, 3) / 255 for n in CORRUPTIONS if n.endswith("_noise")}
        value = 128 / 255
        assert np.std(noisy["gaussian_noise"]) == pytest.approx(0.08, rel=0.02)
        assert np.std(noisy["shot_noise"]) == pytest.approx(math.sqrt(value / 100), rel=0.02)
        assert np.std(noisy["speckle_noise"]) == pytest.approx(value * 0.12, rel=0.02)
        hit = noisy["impulse_noise"][noisy["impulse_noise"] != value]
        assert hit.size / gray.size == pytest.approx(0.03, rel=0.05)
        assert set(hit) == {0.0, 1.0}
        assert np.mean(hit) == pytest.approx(0.5, abs=0.03)

    @pytest.mark.parametrize("severity", SEVERITIES)
    def test_defocus_blur(self, images, severity):
        radius, softness = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1))[severity - 1]
        x, y = np.meshgrid(np.arange(-8, 9), np.arange(-8, 9))
        kernel = (x**2 + y**2 <= radius**2).astype(float)
        kernel /= kernel.sum()
        taps = [math.exp(-(i**2) / (2 * softness**2)) for i in (-1, 0, 1)]
        taps = np.array(taps) / sum(taps)
        kernel = ndimage.correlate(kernel, np.outer(taps, taps), mode="mirror")
        assert filters.disk(radius, softness).sum() == pytest.approx(1)
        expected = [
            ndimage.correlate(images[3, ..., c] / 255, kernel, mode="mirror") for c in range(3)
        ]
        received = corrupt(images[3:4], "defocus_blur", severity)[0]
        _assert_same(received, np.clip(np.stack(expected, axis=-1), 0, 1) * 255)

    @pytest.mark.parametrize("severity", SEVERITIES)
    def test_glass_blur(self, images, severity):
        sigma, iterations = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))[severity - 1]
        smooth = ndimage.gaussian_filter(images[2] / 255, (sigma, sigma, 0), mode="nearest")
        pixels = np.uint8(smooth * 255)
        moves = _rng("glass_blur", severity, 2).integers(-1, 1, (iterations, 2, 30, 30))
        for step in range(iterations):
            for row in range(31, 1, -1):
                for column in range(31, 1, -1):
                    other_row = row + moves[step, 0, row - 2, column - 2]
                    other_column = column + moves[step, 1, row - 2, column - 2]
                    # Both sides are views of the array: what looks like a swap is a copy.
                    one, other = pixels[row, column], pixels[other_row, other_column]
                    pixels[row, column], pixels[other_row, other_column] = other, one
        expected = ndimage.gaussian_filter(pixels / 255, (sigma, sigma, 0), mode="nearest") * 255
        received = corrupt(images[2:3], "glass_blur", severity, first_index=2)[0]
        _assert_same(received, expected)

    @pytest.mark.parametrize("degrees", [0.0, 45.0, -45.0, 13.7, -90.0, -135.0, -60.3])
    def test_motion_kernel(self, images, degrees):
        radius, sigma = 6, 2.0
        width = 2 * radius + 1
        kernel = np.zeros([2 * width + 1] * 2)
        for step in range(width):
            row = math.ceil(step * math.sin(math.radians(degrees)) - 0.5)
            column = math.ceil(step * math.cos(math.radians(degrees)) - 0.5)
            kernel[width + row, width + column] += math.exp(-(step**2) / (2 * sigma**2))
        kernel /= kernel.sum()
        expected = [
            ndimage.correlate(images[1, ..., c].astype(float), kernel, mode="nearest")
            for c in range(3)
        ]
        received = filters.motion_blur(images[1:2], radius, sigma, np.array([degrees]))[0]
        np.testing.assert_allclose(received, np.rint(np.stack(expected, axis=-1)), atol=0)

    @pytest.mark.parametrize("severity", [1, 3, 5])
    def test_zoom_blur(self, images, severity):
        image = images[9] / 255
        factors = np.arange(1, (1.06, 0, 1.16, 0, 1.26)[severity - 1], 0.01)
        total = image.copy()
        for factor in factors:
            total += _zoomed(image, factor)
        expected = np.clip(total / (len(factors) + 1), 0, 1) * 255
        _assert_same(corrupt(images[9:10], "zoom_blur", severity)[0], expected)

    @pytest.mark.parametrize("severity", [1, 4, 5])
    def test_fog(self, images, severity):
        thickness, decay = ((0.2, 3), 0, 0, (1, 2), (1.5, 1.75))[severity - 1]
        cloud = _cloud(_rng("fog", severity, 11).uniform(-1, 1, 1023), decay)
        image = images[11] / 255
        expected = (image + thickness * cloud[..., np.newaxis]) * image.max()
        expected = np.clip(expected / (image.max() + thickness), 0, 1) * 255
        _assert_same(corrupt(images[11:12], "fog", severity, first_index=11)[0], expected)

    @pytest.mark.parametrize(
        ("name", "severity"), [("brightness", 2), ("saturate", 2), ("saturate", 5)]
    )
    def test_colors(self, images, name, severity):
        expected = np.zeros([32, 32, 3])
        for place in np.ndindex(32, 32):
            hue, saturation, value = colorsys.rgb_to_hsv(*(images[8][place] / 255))
            if name == "brightness":
                value = min(value + 0.1, 1)
            else:
                factor, added = {2: (0.1, 0), 5: (2.5, 0.2)}[severity]
                saturation = min(saturation * factor + added, 1)
            expected[place] = colorsys.hsv_to_rgb(hue, saturation, value)
        _assert_same(corrupt(images[8:9], name, severity)[0], expected * 255)

    @pytest.mark.parametrize("severity", [1, 2, 4])
    def test_elastic_transform(self, images, severity):
        strength, smoothness, shift = {1: (0, 0, 2.56), 2: (1.6, 6.4, 2.24), 4: (3.2, 1.28, 1.6)}[
            severity
        ]
        rng = _rng("elastic_transform", severity, 12)
        before = np.array([[26.0, 26], [26, 6], [6, 6]])
        after = before + rng.uniform(-shift, shift, (3, 2))
        displacements = rng.uniform(-1, 1, (2, 32, 32))
        # Affine map from places in the new image to places in the old one, in (x, y).
        inverse = np.linalg.solve(np.c_[after, np.ones(3)], before).T
        rows, columns = np.indices((32, 32))
        x, y = np.tensordot(inverse, np.stack([columns, rows, np.ones_like(rows)]), 1)
        dx, dy = (
            ndimage.gaussian_filter(d, smoothness, mode="reflect", truncate=3) * strength
            for d in displacements
        )
        for channel in range(3):
            warped = ndimage.map_coordinates(
                images[12, ..., channel] / 255, [y, x], order=1, mode="mirror"
            )
            warped = ndimage.map_coordinates(
                warped, [rows + dy, columns + dx], order=1, mode="reflect"
            )
            received = corrupt(images[12:13], "elastic_transform", severity, first_index=12)
            _assert_same(received[0, ..., channel], np.clip(warped, 0, 1) * 255)


def _zoomed(image, factor):
    crop = math.ceil(32 / factor)
    top = (32 - crop) // 2
    center = image[top : top + crop, top : top + crop]
    large = ndimage.zoom(center, (factor, factor, 1), order=1)
    trim = (large.shape[0] - 32) // 2
    return large[trim : trim + 32, trim : trim + 32]


def _cloud(draws, decay):
    """Diamond-square point by point; neighbors wrap around."""
    heights = np.zeros([32, 32])
    draws = iter(draws)
    step, roughness = 32, 100.0
    while step >= 2:
        half = step // 2
        for kind in ("center", "across", "along"):
            new = {}
            for row, column in itertools.product(range(0, 32, step), repeat=2):
                if kind == "center":
                    place = row + half, column + half
                    neighbors = itertools.product((row, row + step), (column, column + step))
                else:
                    place = (row, column + half) if kind == "across" else (row + half, column)
                    r, c = place
                    neighbors = ((r - half, c), (r + half, c), (r, c - half), (r, c + half))
                total = sum(heights[r % 32, c % 32] for r, c in neighbors)
                new[place] = total / 4 + roughness**2 * next(draws)
            for place, height in new.items():
                heights[place] = height
        step, roughness = half, roughness / decay
    heights -= heights.min()
    return heights / heights.max()
