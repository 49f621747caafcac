"""A hash of what a dataset holds, whatever the order in which it is stored."""

import hashlib

import numpy as np


def fingerprint(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 over the decoded images, or texts, and their labels, as 64 hexadecimal digits.

    Each example is hashed by itself and the sorted hashes are hashed together, so the order of the
    examples does not count, but every pixel, every label, every repetition and the shape do.

    Args:
        images: uint8 [N, H, W, C], or texts [N].
        labels: integers [N].
    """
    images, labels = np.ascontiguousarray(images), np.asarray(labels)
    is_text = images.dtype.kind == "U"
    if not (is_text or images.dtype == np.uint8) or labels.shape != images.shape[:1]:
        raise ValueError(
            f"Expected uint8 images and as many labels, or texts; received {images.dtype} "
            f"{list(images.shape)} and {list(labels.shape)}."
        )
    # Little-endian on every machine.
    labels = labels.astype("<i8")
    examples = sorted(
        hashlib.sha256(label.tobytes() + content).digest()
        for content, label in zip(map(_text if is_text else _pixels, images), labels, strict=True)
    )
    shape = repr(tuple(map(int, images.shape))).encode()
    return hashlib.sha256(shape + b"".join(examples)).hexdigest()


def _pixels(image):
    return image.tobytes()


def _text(text):
    encoded = text.encode()
    return b"0 %d " % len(encoded) + encoded  # no name, then the length before the bytes
