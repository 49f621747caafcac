"""Hashes: fingerprints of datasets, the splits that hashes choose, checksums of published files."""

import functools
import hashlib
import pathlib
from collections.abc import Iterable, Iterator

import numpy as np

from s2d_tf._types import ArrayLike, Inputs
from s2d_tf.data.registry import ArchiveError

VALIDATION_FRACTION = 0.1
_VALIDATION_SEED = b"20220311"


class Content:
    """Hashes and labels of examples that come in batches; the batch boundaries do not matter.

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
        labels = np.asarray(labels).astype("<i8")  # little-endian on every machine
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


def fingerprint(inputs: Inputs, labels: ArrayLike) -> str:
    """SHA-256 over decoded images, texts or numbers, and their labels, as 64 hexadecimal digits.

    Each example is hashed by itself and the sorted hashes are hashed together, so the order of the
    examples does not matter, but every pixel, every label, every repetition and the shape do.

    Args:
        inputs: uint8 images [N, H, W, C], texts [N], or other inputs of a model.
        labels: integers [N].

    Example:

    >>> order = np.arange(len(images))[::-1]
    >>> data.fingerprint(images, labels) == data.fingerprint(images[order], labels[order])
    True
    """
    content = Content()
    content.update(inputs, labels)
    return content.fingerprint


def smallest_hashes(
    contents: Iterable[bytes], labels: ArrayLike, fraction: float, at_least: int = 0
) -> np.ndarray:
    """The examples of each class with the smallest hashes.

    The hashes choose them, so a split holds the same examples for everyone, in whatever order a
    copy of the data stores them.

    Args:
        contents: the bytes of each example.
        labels: int [N].
        fraction: share of each class, rounded.
        at_least: so many of each class, but never its last example.

    Returns:
        bool [N].
    """
    labels = np.asarray(labels)
    digests = np.array([hashlib.sha256(_VALIDATION_SEED + each).digest() for each in contents])
    mask = np.zeros(labels.shape, dtype=bool)
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        count = min(max(round(fraction * members.size), at_least), members.size - 1)
        mask[members[np.argsort(digests[members], kind="stable")[:count]]] = True
    return mask


def _named_arrays(inputs: Inputs) -> list[tuple[str, np.ndarray]]:
    """The arrays of nested dicts, lists and tuples, each with its place, in a fixed order."""
    import keras

    flat = keras.tree.flatten_with_path(inputs)
    return [("".join(f"/{key}" for key in path), np.asarray(part)) for path, part in flat]


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


def file_digest(path: pathlib.Path, algorithm: str = "md5") -> str:
    """The hexadecimal digest of a file."""
    make = functools.partial(hashlib.new, algorithm, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, make).hexdigest()


def check_digest(path: pathlib.Path, expected: str, algorithm: str = "md5") -> None:
    """Raises ArchiveError unless a file has the digest that its publishers give."""
    received = file_digest(path, algorithm)
    ArchiveError.unless(
        received == expected,
        f"{path}: expected {algorithm.upper()} {expected}, received {received} in a file of "
        f"{path.stat().st_size:,} bytes. It is incomplete or not the published one: remove "
        "it and get it again.",
    )
