"""Photographs for the tests of corruptions, and archives in the place of published ones."""

import hashlib
import importlib.resources
import io
import tarfile

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


def write_archive(data_dir, file_name, members):
    """Writes a tar file where downloads belong, and returns its MD5."""
    path = data_dir / "downloads" / "manual" / file_name
    path.parent.mkdir(parents=True)
    with tarfile.open(path, "w:gz" if file_name.endswith("gz") else "w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return hashlib.md5(path.read_bytes()).hexdigest()
