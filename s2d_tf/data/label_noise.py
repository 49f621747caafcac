"""Wrong labels on purpose: symmetric, by class, or those of the people behind CIFAR-100N."""

import csv
import operator
import os
import pathlib
import zipfile
from collections.abc import Sequence

import numpy as np

from s2d_tf.data import location

KINDS = ("symmetric", "class_dependent")
HUMAN = "human"
FILE_NAME = "CIFAR-100N.npz"

# Superclass of each class of CIFAR-100 (Krizhevsky, 2009), numbered as in its files.
_SUPERCLASSES = (
    4, 1, 14, 8, 0, 6, 7, 7, 18, 3, 3, 14, 9, 18, 7, 11, 3, 9, 7, 11, 6, 11, 5, 10, 7,
    6, 13, 15, 3, 15, 0, 11, 1, 10, 12, 14, 16, 9, 11, 5, 5, 19, 8, 8, 15, 13, 14, 17, 18, 10,
    16, 4, 17, 4, 2, 0, 17, 4, 18, 17, 10, 3, 2, 12, 12, 16, 12, 1, 9, 19, 2, 10, 0, 1, 16,
    12, 9, 13, 15, 13, 16, 19, 2, 4, 6, 19, 5, 5, 8, 19, 18, 1, 2, 15, 6, 0, 17, 8, 14, 13,
)  # fmt: skip

# CIFAR-100N: Wei et al., Learning with noisy labels revisited, ICLR 2022;
# https://github.com/UCSC-REAL/cifar-10-100n. The second name is that of its file for TensorFlow.
_NOISY_KEYS = ("noisy_label", "noise_label")
_CLEAN_KEY = "clean_label"
_SUFFIXES = (".npz", ".npy", ".csv")
# 40.2% of its labels differ from the official ones. In another order 99% would.
_LARGEST_NOISE = 0.6


def noisy_labels(
    labels: np.ndarray,
    rate: float,
    kind: str = "symmetric",
    seed: int = 0,
    *,
    num_classes: int | None = None,
    partners: Sequence[int] | None = None,
) -> np.ndarray:
    """Changes a share of the labels, the same share in every class.

    Exactly `round(rate * n)` of the `n` labels of a class are changed, each to another class.

    Args:
        labels: integers [N] from 0.
        rate: share of the labels that are changed, 0 to 1.
        kind: "symmetric": to any other class, all alike. "class_dependent": to the class's partner.
        seed: any integer; the same seed changes the same labels.
        num_classes: number of classes; default: the largest label plus 1.
        partners: for "class_dependent", the class that each class is changed to; default: the next
            class. `cifar100_partners()` gives the next class in the same superclass.

    Returns:
        int64 [N].

    Raises:
        ValueError: labels, rate, kind or partners are out of range.

    Example:

    >>> labels = np.arange(1_000) % 10
    >>> noisy = data.noisy_labels(labels, rate=0.2, seed=1)
    >>> float(np.mean(noisy != labels))
    0.2
    """
    labels = np.asarray(labels)
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer) or not labels.size:
        raise ValueError(
            f"labels: expected integers [N], received {labels.dtype} {list(labels.shape)}. Pass "
            "the number of each example's class."
        )
    count = int(labels.max()) + 1 if num_classes is None else operator.index(num_classes)
    if labels.min() < 0 or labels.max() >= count or count < 2:
        raise ValueError(
            f"labels: expected at least 2 classes and labels from 0 to {count - 1}, received "
            f"{labels.min()} to {labels.max()}. Check num_classes."
        )
    if not 0 <= rate <= 1:
        raise ValueError(
            f"rate: expected a share from 0 to 1, received {rate!r}. Pass 0.4 for 40%."
        )
    if kind not in KINDS:
        raise ValueError(
            f"kind: expected one of {', '.join(KINDS)}, received {kind!r}. Choose one of them."
        )
    partners = _checked_partners(partners, count)
    random = np.random.Generator(np.random.PCG64([operator.index(seed) % 2**64, KINDS.index(kind)]))
    noisy = labels.astype(np.int64)
    for label in range(count):
        members = np.flatnonzero(labels == label)
        chosen = random.permutation(members)[: round(rate * members.size)]
        if kind == "symmetric":
            noisy[chosen] = (label + random.integers(1, count, chosen.size)) % count
        else:
            noisy[chosen] = partners[label]
    return noisy


def change_labels(
    labels: np.ndarray,
    noise: str,
    dataset: str,
    num_classes: int,
    data_dir: str | os.PathLike | None = None,
) -> np.ndarray:
    """Training labels with the noise that a recipe names; every run gets the same ones.

    Args:
        labels: the official training labels [N].
        noise: "symmetric@0.2" or "class_dependent@0.2", a kind and a rate (in CIFAR-100 to the next
            class of the superclass); or "human", the labels of CIFAR-100N from
            `cifar100n/CIFAR-100N.npz` in the data folder.
        dataset: name of the dataset.
        num_classes: number of its classes.
        data_dir: TFDS folder.

    Returns:
        int64 [N].

    Raises:
        MissingDataError: the file of the human labels is missing.

    Example:

    >>> official = np.arange(1_000) % 10
    >>> noisy = data.change_labels(official, "symmetric@0.2", "digits", 10)
    >>> float(np.mean(noisy != official))
    0.2
    """
    if noise != HUMAN:
        kind, _, rate = noise.partition("@")
        partners = cifar100_partners() if dataset == "cifar100" else None
        return noisy_labels(labels, float(rate), kind, num_classes=num_classes, partners=partners)
    path = location.resolve_data_dir(data_dir) / "cifar100n" / FILE_NAME
    if dataset != "cifar100":
        raise ValueError(
            f"label_noise: expected the dataset cifar100 for 'human', received {dataset!r}. Use "
            "symmetric@RATE."
        )
    if not path.is_file():
        raise location.MissingDataError(
            f"label_noise: expected the labels of CIFAR-100N in {path}, received no such file. "
            "Save the arrays noisy_label and clean_label of CIFAR-100_human.pt there with "
            "np.savez, or use symmetric@0.4."
        )
    return read_cifar100n(path, labels)


def cifar100_partners() -> tuple[int, ...]:
    """For each class of CIFAR-100 the next one in its superclass, and the first after the last.

    Example:

    >>> partners = data.cifar100_partners()
    >>> len(partners), partners[0] != 0
    (100, True)
    """
    members = {s: [c for c, t in enumerate(_SUPERCLASSES) if t == s] for s in set(_SUPERCLASSES)}
    return tuple(
        members[s][(members[s].index(c) + 1) % len(members[s])] for c, s in enumerate(_SUPERCLASSES)
    )


def read_cifar100n(path: str | os.PathLike, labels: np.ndarray) -> np.ndarray:
    """Reads the human labels of CIFAR-100N and checks that they belong to these images.

    Published are `CIFAR-100_human.pt` and `CIFAR-100_human_ordered.npy`. Both are pickles, which
    can run code and are rejected. Save their entries `noisy_label` and `clean_label` as plain
    arrays, where you trust the file, for example with `np.savez("CIFAR-100N.npz", ...)`.

    Args:
        path: .npz or .csv with `noisy_label` and, if possible, `clean_label`; or .npy with the
            noisy labels only.
        labels: the official training labels in the order of your images.

    Returns:
        int64 [N], the noisy labels in the order of `labels`.

    Raises:
        ValueError: the file has other arrays, or they are in another order.

    Example:

    >>> labels = np.arange(1_000) % 100
    >>> np.savez("cifar100n.npz", noisy_label=data.noisy_labels(labels, 0.4), clean_label=labels)
    >>> noisy = data.read_cifar100n("cifar100n.npz", labels)
    >>> float(np.mean(noisy != labels))
    0.4
    """
    path, labels = pathlib.Path(path), np.asarray(labels)
    columns = _read_columns(path)
    noisy = next((columns[key] for key in _NOISY_KEYS if key in columns), None)
    if noisy is None:
        raise ValueError(
            f"{path}: expected 'noisy_label', received {', '.join(columns) or 'none'}. Save the "
            "labels under that name."
        )
    clean = columns.get(_CLEAN_KEY)
    for name, values in (("noisy_label", noisy), (_CLEAN_KEY, clean)):
        if values is not None and (
            values.shape != labels.shape
            or not np.issubdtype(values.dtype, np.integer)
            or not np.all((values >= 0) & (values < 100))
        ):
            raise ValueError(
                f"{path}: {name}: expected {labels.size:,} labels from 0 to 99, received "
                f"{values.dtype} {list(values.shape)}. Get the published file again."
            )
    is_other_order = np.mean(noisy != labels) > _LARGEST_NOISE
    if is_other_order if clean is None else not np.array_equal(clean, labels):
        raise ValueError(
            f"{path}: expected the labels in the order of your training images, received another "
            "order. TFDS and the Python version of CIFAR-100 differ: reorder the file (the "
            "publisher's image_order_c100.npy)."
        )
    return noisy.astype(np.int64)


def _read_columns(path):
    if path.suffix not in _SUFFIXES:
        raise ValueError(
            f"{path}: expected a file that ends in {', '.join(_SUFFIXES)}, received "
            f"{path.suffix!r}. Other formats, such as the published .pt, are pickles and can run "
            "code: save its arrays with np.savez."
        )
    try:
        if path.suffix == ".csv":
            with path.open(newline="", encoding="utf-8") as file:
                rows = list(csv.DictReader(file))
            return {key: np.array([int(row[key]) for row in rows]) for key in (rows or [{}])[0]}
        content = np.load(path, allow_pickle=False)
        if path.suffix == ".npy":
            return {_NOISY_KEYS[0]: content}
        with content:
            return {key: content[key] for key in content.files}
    except FileNotFoundError:
        raise
    except (
        ValueError,
        KeyError,
        TypeError,
        OSError,
        EOFError,
        csv.Error,
        zipfile.BadZipFile,
    ) as error:
        raise ValueError(
            f"{path}: expected plain integer arrays, received others ({error}). A pickled .npy, "
            "such as the published CIFAR-100_human_ordered.npy, can run code: save its arrays with "
            "np.savez."
        ) from error


def _checked_partners(partners, count):
    partners = tuple((c + 1) % count for c in range(count)) if partners is None else tuple(partners)
    if len(partners) != count or any(not 0 <= p < count or p == c for c, p in enumerate(partners)):
        raise ValueError(
            f"partners: expected another class for each of {count} classes, received {partners!r}. "
            "Omit it for the next class."
        )
    return partners
