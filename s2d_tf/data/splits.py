"""The fixed, class-balanced validation split that is taken out of a training split."""

import hashlib

import numpy as np

VALIDATION_FRACTION = 0.1
VALIDATION_SEED = 20_220_311

# Splits that are parts of "train", with whether they take the validation examples or the others.
DERIVED_SPLITS = {"validation": True, "train_without_validation": False}


def validation_mask(images: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Which training examples belong to the validation split.

    Takes a tenth of each class, rounded: the examples with the smallest hash of (seed, pixels). So
    the split holds the same images for everyone, in whatever order a copy of the data stores them.

    Args:
        images: uint8 [N, H, W, C], the whole training split.
        labels: int [N].

    Returns:
        bool [N].
    """
    labels = np.asarray(labels)
    salt = str(VALIDATION_SEED).encode()
    digests = np.array([hashlib.sha256(salt + image.tobytes()).digest() for image in images])
    mask = np.zeros(labels.shape, dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = round(VALIDATION_FRACTION * members.size)
        mask[members[np.argsort(digests[members], kind="stable")[:count]]] = True
    return mask
