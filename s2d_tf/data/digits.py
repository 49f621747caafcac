"""The embedded digits family: real images that need neither network nor files of their own.

scikit-learn carries 1,797 handwritten digits of 8x8 pixels. Digits 0 to 7 are the task: 20 training
images a class, all others for testing, so that the test set is large enough for stable metrics and
training is small enough to leave a model unsure. Digits 8 and 9 are never trained on and are the
near out-of-distribution set. The far one is patches of scikit-learn's two sample photographs.
"""

import importlib.resources
import pathlib

import numpy as np

from s2d_tf.data import image_files

_SPLIT_SEED = 1_797
_PHOTO_SEED = 2_022
# A digit is 8x8 counts of ink in the 4x4 blocks of a 32x32 scan; photographs are reduced alike.
_SIDE, _BLOCK = 8, 4
# Standard deviation in gray levels below which a patch is empty sky or background: not a picture.
_MIN_CONTRAST = 16


def load(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, 8, 8, 1] and labels int64 [N] of one split of a dataset of this family."""
    from sklearn import datasets

    if name == "digits_photos":
        return _photo_patches()
    digits, labels = datasets.load_digits(return_X_y=True)
    # Ink counts 0..16 become 0..255.
    images = np.rint(digits * (255 / 16)).astype(np.uint8).reshape(-1, _SIDE, _SIDE, 1)
    if name == "digits_heldout":
        return images[labels >= 8], labels[labels >= 8] - 8
    random = np.random.RandomState(_SPLIT_SEED)
    shuffled = [random.permutation(np.flatnonzero(labels == label)) for label in range(8)]
    part = slice(None, 20) if split == "train" else slice(20, None)
    chosen = np.sort(np.concatenate([indices[part] for indices in shuffled]))
    return images[chosen], labels[chosen]


def _photo_patches():
    """500 patches of each photograph."""
    random, window = np.random.RandomState(_PHOTO_SEED), _SIDE * _BLOCK
    patches: list[np.ndarray] = []
    for count, file_name in ((500, "china.jpg"), (1_000, "flower.jpg")):
        file = importlib.resources.files("sklearn.datasets.images") / file_name
        photo = image_files.decode(file.read_bytes()).numpy()
        gray = photo.astype(np.int64) @ np.array([299, 587, 114])  # thousandths, Rec. 601 luma
        while len(patches) < count:
            row, column = (random.randint(0, size - window + 1) for size in gray.shape)
            pixels = gray[row : row + window, column : column + window]
            blocks = pixels.reshape(_SIDE, _BLOCK, _SIDE, _BLOCK)
            patch = blocks.sum(axis=(1, 3)) // (1_000 * _BLOCK * _BLOCK)
            if np.std(patch) >= _MIN_CONTRAST:
                patches.append(patch)
    return np.stack(patches).astype(np.uint8)[..., np.newaxis], np.full(len(patches), -1)
