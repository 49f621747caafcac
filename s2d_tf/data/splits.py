"""The fixed, class-balanced validation split that is taken out of a training split."""

import hashlib

import numpy as np

VALIDATION_FRACTION = 0.1
VALIDATION_SEED = 20_220_311
HELD_OUT_SEED = 20_220_312

# Splits that are parts of "train", with whether they take the validation examples or the others.
DERIVED_SPLITS = {"validation": True, "train_without_validation": False}


def validation_mask(
    images: np.ndarray,
    labels: np.ndarray,
    fraction: float = VALIDATION_FRACTION,
    seed: int = VALIDATION_SEED,
) -> np.ndarray:
    """Which training examples belong to the validation split.

    Takes a tenth of each class, rounded: the examples with the smallest hash of (seed, pixels). So
    the split holds the same images for everyone, in whatever order a copy of the data stores them.

    Args:
        images: uint8 [N, H, W, C], the whole training split.
        labels: int [N].
        fraction: share of each class.
        seed: of the hash; another one takes other examples.

    Returns:
        bool [N].
    """
    labels = np.asarray(labels)
    salt = str(seed).encode()
    digests = np.array([hashlib.sha256(salt + image.tobytes()).digest() for image in images])
    mask = np.zeros(labels.shape, dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(fraction * members.size)
        mask[members[np.argsort(digests[members], kind="stable")[:count]]] = True
    return mask


def hold_out(images: np.ndarray, labels: np.ndarray, count: int):
    """Takes about `count` examples, the same share of each class, out of a training split.

    Returns:
        `(images, labels)` to train on, and `(images, labels)` that are held out.
    """
    if not 0 < count < len(images):
        raise ValueError(
            f"held_out: expected 1 to {len(images) - 1} of {len(images)} training examples, "
            f"received {count}."
        )
    held = validation_mask(images, labels, count / len(images), HELD_OUT_SEED)
    return (images[~held], labels[~held]), (images[held], labels[held])
