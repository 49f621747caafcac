"""A hash of what a dataset holds, whatever the order in which it is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np

from s2d_tf._types import ArrayLike, Inputs


class Content:
    """Hashes and labels of examples that come in batches; where a batch ends does not count.

    The inputs of an example are one array, or several in a list or dict: numbers or texts.

    Example:

    >>> content = data.Content()
    >>> content.update(images[:20], labels[:20])
    >>> content.update(images[20:], labels[20:])
    >>> content.fingerprint == data.fingerprint(images, labels)
    True
    """

    def __init__(self) -> None:
        self._examples: list[bytes] = []
        self._labels: list[np.ndarray] = []
        self._shape: tuple[int, ...] = ()
        self._inputs = hashlib.sha256()

    def __len__(self) -> int:
        return len(self._examples)

    def update(self, inputs: Inputs, labels: ArrayLike) -> None:
        """Adds a batch: its inputs, and as many integer labels, -1 where there is none."""
        named = _named_arrays(inputs)
        images = len(named) == 1 and named[0][1].dtype == np.uint8
        # Little-endian on every machine.
        labels = np.asarray(labels).astype("<i8")
        columns = [_rows(name, array, images) for name, array in named]
        for label, *row in zip(labels, *columns, strict=True):
            example = b"".join(row)
            self._inputs.update(example)
            self._examples.append(hashlib.sha256(label.tobytes() + example).digest())
        self._labels.append(labels.astype(np.int64))
        self._shape = tuple(map(int, named[0][1].shape[1:])) if images else ()

    @property
    def labels(self) -> np.ndarray:
        """All labels in their order, int64 `[n]`."""
        return np.concatenate(self._labels) if self._labels else np.zeros([0], np.int64)

    @property
    def inputs(self) -> str:
        """SHA-256 of the inputs in their order, without labels."""
        return self._inputs.hexdigest()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of inputs and labels, whatever the order of the examples."""
        shape = repr((len(self), *self._shape)).encode()
        return hashlib.sha256(shape + b"".join(sorted(self._examples))).hexdigest()


def fingerprint(images: np.ndarray, labels: np.ndarray) -> str:
    """SHA-256 over the decoded images, or texts, and their labels, as 64 hexadecimal digits.

    Each example is hashed by itself and the sorted hashes are hashed together, so the order of the
    examples does not count, but every pixel, every label, every repetition and the shape do.

    Args:
        images: uint8 [N, H, W, C], or texts [N].
        labels: integers [N].

    Example:

    >>> order = np.arange(len(images))[::-1]
    >>> data.fingerprint(images, labels) == data.fingerprint(images[order], labels[order])
    True
    """
    images, labels = np.asarray(images), np.asarray(labels)
    is_data = images.dtype == np.uint8 or images.dtype.kind == "U"
    if not is_data or labels.shape != images.shape[:1]:
        raise ValueError(
            f"images: expected uint8 images or texts and as many labels, received {images.dtype} "
            f"{list(images.shape)} and {list(labels.shape)}. Pass raw pixels and a label for each."
        )
    content = Content()
    content.update(images, labels)
    return content.fingerprint


def _named_arrays(inputs: Inputs, name: str = "") -> list[tuple[str, np.ndarray]]:
    """The arrays of nested dicts, lists and tuples, each with its place, in a fixed order."""
    if isinstance(inputs, dict):
        parts = sorted(inputs.items())
    elif isinstance(inputs, (list, tuple)):
        parts = list(enumerate(inputs))
    else:
        return [(name, np.asarray(inputs))]
    return [pair for key, part in parts for pair in _named_arrays(part, f"{name}/{key}")]


def _rows(name: str, array: np.ndarray, plain: bool) -> Iterator[bytes]:
    """The bytes of each example; those of images alone have no heading."""
    if array.dtype.kind in "OSU":
        for texts in array.reshape(len(array), -1).tolist():
            parts = [text if isinstance(text, bytes) else str(text).encode() for text in texts]
            yield b"".join(b"%d " % len(part) + part for part in [name.encode(), *parts])
        return
    for row in np.ascontiguousarray(array):
        # Place, type and shape: the same bytes may be other numbers.
        heading = "" if plain else f"{name} {array.dtype.str} {row.shape} "
        yield heading.encode() + row.tobytes()
