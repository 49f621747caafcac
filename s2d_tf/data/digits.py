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

TRAIN_IMAGES_PER_CLASS = 20
NUM_TASK_CLASSES = 8
NUM_PHOTO_PATCHES = 1_000
_SPLIT_SEED = 1_797
_PHOTO_SEED = 2_022
_PHOTOS = ("china.jpg", "flower.jpg")

# A digit is 8x8 counts of ink in the 4x4 blocks of a 32x32 scan; photographs are reduced alike.
_BLOCK = 4
# Standard deviation in gray levels below which a patch is empty sky or background: not a picture.
_MIN_CONTRAST = 16
_SIDE = 8


def load(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [N, 8, 8, 1] and labels int64 [N] of one split of a dataset of this family."""
    del data_dir
    if name == "digits_photos":
        return _photo_patches()
    images, labels = _all_digits()
    if name == "digits_heldout":
        held_out = labels >= NUM_TASK_CLASSES
        return images[held_out], labels[held_out] - NUM_TASK_CLASSES
    in_train = _train_mask(labels)
    chosen = in_train if split == "train" else (labels < NUM_TASK_CLASSES) & ~in_train
    return images[chosen], labels[chosen]


def _all_digits():
    from sklearn import datasets

    digits = datasets.load_digits()
    # Ink counts 0..16 become 0..255.
    images = np.rint(digits.images * (255 / 16)).astype(np.uint8)[..., np.newaxis]
    return images, digits.target.astype(np.int64)


def _train_mask(labels):
    random = np.random.RandomState(_SPLIT_SEED)
    mask = np.zeros(labels.shape, dtype=bool)
    for label in range(NUM_TASK_CLASSES):
        members = np.flatnonzero(labels == label)
        mask[random.permutation(members)[:TRAIN_IMAGES_PER_CLASS]] = True
    return mask


def _photo_patches():
    random = np.random.RandomState(_PHOTO_SEED)
    patches: list[np.ndarray] = []
    window = _SIDE * _BLOCK
    for file_name in _PHOTOS:
        encoded = (importlib.resources.files("sklearn.datasets.images") / file_name).read_bytes()
        photo = image_files.decode(encoded).numpy()
        gray = photo.astype(np.int64) @ np.array([299, 587, 114])  # thousandths, Rec. 601 luma
        wanted = len(patches) + NUM_PHOTO_PATCHES // len(_PHOTOS)
        while len(patches) < wanted:
            row, column = (random.randint(0, size - window + 1) for size in gray.shape)
            blocks = gray[row : row + window, column : column + window]
            blocks = blocks.reshape(_SIDE, _BLOCK, _SIDE, _BLOCK).sum(axis=(1, 3))
            patch = blocks // (1_000 * _BLOCK * _BLOCK)
            if np.std(patch) >= _MIN_CONTRAST:
                patches.append(patch)
    return np.stack(patches).astype(np.uint8)[..., np.newaxis], np.full(len(patches), -1)
