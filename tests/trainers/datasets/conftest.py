"""Photographs for the tests of corruptions."""

import importlib.resources

import numpy as np
import pytest
from PIL import Image


@pytest.fixture(scope="module")
def images():
    """Real photographs: 32x32 tiles of scikit-learn's two, reduced."""
    tiles = []
    for name in ("china.jpg", "flower.jpg"):
        encoded = importlib.resources.files("sklearn.datasets.images") / name
        with encoded.open("rb") as file:
            photo = np.asarray(Image.open(file).resize((256, 160), Image.Resampling.BOX))
        tiles += [
            photo[r : r + 32, c : c + 32] for r in range(0, 160, 32) for c in range(0, 256, 32)
        ]
    return np.stack([tile for tile in tiles if np.std(tile) > 30 and np.mean(tile) < 180])
