"""A hash of what a dataset holds, whatever the order in which it is stored."""

import hashlib

import numpy as np


def fingerprint(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 over the decoded images and their labels, as 64 hexadecimal digits.

    Each example is hashed by itself and the sorted hashes are hashed together, so the order of the
    examples does not count, but every pixel, every label, every repetition and the shape do.

    Args:
        images: uint8 [N, H, W, C].
        labels: integers [N].
    """
    images, labels = np.ascontiguousarray(images), np.asarray(labels)
    if images.dtype != np.uint8 or labels.shape != images.shape[:1]:
        raise ValueError(
            f"Expected uint8 images and as many labels; received {images.dtype} "
            f"{list(images.shape)} and {list(labels.shape)}."
        )
    # Little-endian on every machine.
    labels = labels.astype("<i8")
    examples = sorted(
        hashlib.sha256(label.tobytes() + image.tobytes()).digest()
        for image, label in zip(images, labels, strict=True)
    )
    shape = repr(tuple(map(int, images.shape))).encode()
    return hashlib.sha256(shape + b"".join(examples)).hexdigest()
