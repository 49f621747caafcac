"""Opens a split of any dataset by name, as arrays or as a `tf.data.Dataset`."""

from __future__ import annotations

import functools
import importlib
import os
import pathlib
import types
from typing import TYPE_CHECKING, Any

import numpy as np

from s2d_tf.data import digits, prepared
from s2d_tf.data.location import MissingDataError, resolve_data_dir
from s2d_tf.data.registry import DatasetInfo, info
from s2d_tf.data.splits import DERIVED_SPLITS, validation_mask

if TYPE_CHECKING:
    import tensorflow as tf

# Sources that TFDS does not prepare.
_SINGLE_FILES = ("corrupted", "clinc150")


def load_arrays(
    name: str, split: str, data_dir: str | os.PathLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Reads one split into memory, in an order that is always the same.

    The arrays stay in memory and are shared by all callers, so they are read-only.

    Args:
        name: one of `names()`; for CIFAR-100-C with a condition: "cifar100_c_generated.fog_3".
        split: "train", "test", "validation" (as published, else a fixed, class-balanced tenth of
            train) or "train_without_validation".
        data_dir: TFDS folder; default: the environment variable TFDS_DATA_DIR, else that of TFDS.

    Returns:
        images uint8 [N, H, W, C], or texts [N], and labels int64 [N], -1 where there is no label.

    Example:

    >>> images, labels = data.load_arrays("digits", "train")
    >>> images.shape[1:], images.dtype
    ((8, 8, 1), dtype('uint8'))
    """
    known = _with_derived(info(name).splits)
    if split not in known:
        raise ValueError(
            f"split: expected one of {', '.join(known)} of {name!r}, received {split!r}. "
            "Choose one of these."
        )
    if info(name).source == "corrupted":
        # Mapped from disk: to keep the maps of 90 conditions would keep their pages in memory.
        return _frozen(*_module(info(name)).read(name, resolve_data_dir(data_dir)))
    return _read(name, split, resolve_data_dir(data_dir))


def load(name: str, split: str, data_dir: str | os.PathLike | None = None) -> tf.data.Dataset:
    """One split as an unbatched `tf.data.Dataset` of (image uint8 [H, W, C] or text, label int64).

    Arguments as in `load_arrays`. To train: `train_pipeline`.

    Example:

    >>> dataset = data.load("digits", "test").batch(32)
    >>> image, label = next(iter(dataset))
    """
    import tensorflow as tf

    from s2d_tf.data.pipelines import with_standard_options

    images, labels = load_arrays(name, split, data_dir)
    return with_standard_options(tf.data.Dataset.from_tensor_slices((images, labels)))


def fetch(name: str, data_dir: str | os.PathLike | None = None) -> None:
    """Downloads a dataset from its official source into `data_dir` if it is not there yet.

    Example:

    >>> data.fetch("digits")                               # comes with scikit-learn: does nothing
    """
    record = info(name)
    if record.source in _SINGLE_FILES:
        _module(record).fetch(name, resolve_data_dir(data_dir))
    elif record.source != "embedded":
        _builder(record, resolve_data_dir(data_dir), download=True)


def available_splits(name: str, data_dir: str | os.PathLike | None = None) -> tuple[str, ...]:
    """The splits of `name` that can be read from `data_dir`, with those derived from "train".

    Example:

    >>> data.available_splits("digits")
    ('train', 'test', 'validation', 'train_without_validation')
    """
    record = info(name)
    found = record.splits
    if record.source in _SINGLE_FILES:
        _module(record).check(name, resolve_data_dir(data_dir))
    elif record.source != "embedded":
        found = _builder(record, resolve_data_dir(data_dir)).info.splits
    return _with_derived(split for split in record.splits if split in found)


def _with_derived(splits):
    splits = tuple(splits)
    derives = "train" in splits and "validation" not in splits
    return splits + (tuple(DERIVED_SPLITS) if derives else ())


@functools.cache
def _read(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    record = info(name)
    if split in DERIVED_SPLITS and split not in record.splits:
        images, labels = _read(name, "train", data_dir)
        chosen = validation_mask(images, labels) == DERIVED_SPLITS[split]
        return _frozen(images[chosen], labels[chosen])
    if record.source == "embedded":
        return _frozen(*digits.arrays(name, split))
    if record.source == "clinc150":
        return _frozen(*_module(record).read(name, split, data_dir))
    builder = _builder(record, data_dir)
    if split not in builder.info.splits:
        raise MissingDataError(
            f"{builder.data_dir}: expected the split {split!r} of {name!r}, received only "
            f"{', '.join(builder.info.splits)}. Set --data_dir or TFDS_DATA_DIR to a "
            "complete copy."
        )
    if record.source == "openood":
        return _frozen(*_module(record).read(name, builder))
    transform = _module(record).to_32x32(name, builder.info.splits[split].num_examples)
    return _frozen(*prepared.read_split(builder, split, transform))


def _builder(record: DatasetInfo, data_dir: pathlib.Path, download: bool = False) -> Any:
    return _module(record).open_builder(record.name, data_dir, download)


def _module(record: DatasetInfo) -> types.ModuleType:
    """The module that opens datasets of this source; imported late, as TFDS takes seconds."""
    name = "prepared" if record.source == "tfds" else record.source
    return importlib.import_module(f"s2d_tf.data.{name}")


def _frozen(*arrays):
    for array in arrays:
        array.setflags(write=False)
    return arrays
