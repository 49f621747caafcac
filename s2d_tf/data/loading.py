"""Opens a split of any dataset by name, as arrays or as a `tf.data.Dataset`."""

import functools
import importlib
import os
import pathlib

import numpy as np

from s2d_tf.data import digits, prepared
from s2d_tf.data.location import MissingDataError, resolve_data_dir
from s2d_tf.data.registry import DatasetInfo, info
from s2d_tf.data.splits import DERIVED_SPLITS, validation_mask


def load_arrays(
    name: str, split: str, data_dir: str | os.PathLike | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Reads one split into memory, in an order that is always the same.

    The arrays stay in memory and are shared by all callers, so they are read-only.

    Args:
        name: one of `names()`; for CIFAR-100-C with a condition: "cifar100_c_generated.fog_3".
        split: "train", "test", "validation" (a fixed, class-balanced tenth of train) or
            "train_without_validation".
        data_dir: TFDS folder; default: the environment variable TFDS_DATA_DIR, else that of TFDS.

    Returns:
        images uint8 [N, H, W, C] and labels int64 [N], -1 where there is no label.
    """
    record = info(name)
    _check_split(record, split)
    return _read(name, split, resolve_data_dir(data_dir))


def load(name: str, split: str, data_dir: str | os.PathLike | None = None):
    """One split as an unbatched `tf.data.Dataset` of (image uint8 [H, W, C], label int64).

    Arguments as in `load_arrays`. To train: `train_pipeline`.
    """
    import tensorflow as tf

    from s2d_tf.data.pipelines import with_standard_options

    images, labels = load_arrays(name, split, data_dir)
    return with_standard_options(tf.data.Dataset.from_tensor_slices((images, labels)))


def fetch(name: str, data_dir: str | os.PathLike | None = None) -> None:
    """Downloads a dataset from its official source into `data_dir`, unless it is there."""
    record = info(name)
    if record.source == "corrupted":
        _module(record).fetch(name, resolve_data_dir(data_dir))
    elif record.source != "embedded":
        _builder(record, resolve_data_dir(data_dir), download=True)


def available_splits(name: str, data_dir: str | os.PathLike | None = None) -> tuple[str, ...]:
    """The splits of `name` that can be read from `data_dir`, with those derived from "train"."""
    record = info(name)
    if record.source == "embedded":
        found = set(record.splits)
    elif record.source == "corrupted":
        _module(record).check(name, resolve_data_dir(data_dir))
        found = set(record.splits)
    else:
        found = set(_builder(record, resolve_data_dir(data_dir)).info.splits) & set(record.splits)
    splits = [split for split in ("train", "test") if split in found]
    return tuple(splits + (list(DERIVED_SPLITS) if "train" in found else []))


def _check_split(record: DatasetInfo, split: str) -> None:
    known = list(record.splits) + (list(DERIVED_SPLITS) if "train" in record.splits else [])
    if split not in known:
        raise ValueError(
            f"Dataset {record.name!r} has no split {split!r}; expected one of: {', '.join(known)}."
        )


@functools.cache
def _read(name: str, split: str, data_dir: pathlib.Path):
    if split in DERIVED_SPLITS:
        images, labels = _read(name, "train", data_dir)
        chosen = validation_mask(images, labels) == DERIVED_SPLITS[split]
        return _frozen(images[chosen], labels[chosen])
    record = info(name)
    if record.source == "embedded":
        return _frozen(*digits.arrays(name, split))
    if record.source == "corrupted":
        return _frozen(*_module(record).read(name, data_dir))
    builder = _builder(record, data_dir)
    if split not in builder.info.splits:
        raise MissingDataError(
            f"Split {split!r} of {name!r} is not in {builder.data_dir}, which holds only: "
            f"{', '.join(builder.info.splits)}. Set --data_dir or TFDS_DATA_DIR to a complete copy."
        )
    if record.source == "tfds":
        return _frozen(*prepared.read_split(builder, split))
    if record.source == "openood":
        return _frozen(*_module(record).read(name, builder))
    transform = _module(record).to_32x32(name, builder.info.splits[split].num_examples)
    return _frozen(*prepared.read_encoded_split(builder, split, transform))


def _builder(record: DatasetInfo, data_dir: pathlib.Path, download: bool = False):
    return _module(record).open_builder(record.name, data_dir, download)


def _module(record: DatasetInfo):
    """The module that opens datasets of this source; imported late, as TFDS takes seconds."""
    name = "prepared" if record.source == "tfds" else record.source
    return importlib.import_module(f"s2d_tf.data.{name}")


def _frozen(*arrays):
    for array in arrays:
        array.setflags(write=False)
    return arrays
