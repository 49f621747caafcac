"""The fixed, class-balanced validation split that is taken out of a training split."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np

from s2d_tf._types import ArrayLike

VALIDATION_FRACTION = 0.1
VALIDATION_SEED = 20_220_311
HELD_OUT_SEED = 20_220_312

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
    return held_out_mask((image.tobytes() for image in images), labels, VALIDATION_FRACTION)


def held_out_mask(
    contents: Iterable[bytes],
    labels: ArrayLike,
    fraction: float,
    at_least: int = 0,
    seed: int = VALIDATION_SEED,
) -> np.ndarray:
    """The examples of each class with the smallest hash of (seed, content).

    Args:
        contents: the bytes of each example.
        labels: int [N].
        fraction: share of each class, rounded.
        at_least: so many of each class, but never its last example.
        seed: another one takes other examples.

    Returns:
        bool [N].
    """
    labels, salt = np.asarray(labels), str(seed).encode()
    digests = np.array([hashlib.sha256(salt + content).digest() for content in contents])
    mask = np.zeros(labels.shape, dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = min(max(round(fraction * members.size), at_least), members.size - 1)
        mask[members[np.argsort(digests[members], kind="stable")[:count]]] = True
    return mask


def hold_out(
    images: np.ndarray, labels: np.ndarray, count: int
) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Takes about `count` examples, the same share of each class, out of a training split.

    Returns:
        `(images, labels)` to train on, and `(images, labels)` that are held out.

    Example:

    >>> (images, labels), held_out = data.hold_out(images, labels, count=8)
    >>> len(images) + len(held_out[0])
    40
    """
    if not 0 < count < len(images):
        raise ValueError(
            f"held_out: expected 1 to {len(images) - 1} of {len(images)} training examples, "
            f"received {count}. Change data.held_out."
        )
    contents, fraction = (image.tobytes() for image in images), count / len(images)
    held = held_out_mask(contents, labels, fraction, seed=HELD_OUT_SEED)
    return (images[~held], labels[~held]), (images[held], labels[held])
