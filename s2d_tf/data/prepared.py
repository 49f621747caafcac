"""Finds, prepares and reads TFDS datasets: its own, and ours that are built from an archive."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from s2d_tf._types import Tensor
from s2d_tf.data import archives
from s2d_tf.data.location import MissingDataError, cache_dir, is_writable

ARCHIVE_MD5 = "archive_md5"


def open_builder(name: str, data_dir: pathlib.Path, download: bool = False) -> Any:
    """The builder of one of TFDS' own datasets, prepared in `data_dir`.

    Args:
        name: a dataset name of TFDS.
        data_dir: the TFDS folder.
        download: fetch and prepare the dataset when it is not there. Never done unasked.

    Raises:
        MissingDataError: the dataset is not there and `download` is false.
    """
    # Looked up here first: TFDS would ask the network about a dataset that it does not find.
    is_there = any((data_dir / name).glob("*/dataset_info.json"))
    if not is_there and not download:
        raise MissingDataError(
            f"{data_dir}: expected the dataset {name!r}, received none. Set --data_dir or "
            f"TFDS_DATA_DIR to the folder that holds it, or run `s2d data {name} --download`."
        )
    import tensorflow_datasets as tfds

    builder = tfds.builder(name, data_dir=str(data_dir))
    if not is_there:
        _check_can_fetch(name, data_dir)
        builder.download_and_prepare()
    return builder


def open_archive_builder(
    make_builder: Callable[[pathlib.Path], Any],
    name: str,
    file_name: str,
    data_dir: pathlib.Path,
    download: bool = False,
) -> Any:
    """The builder of a dataset that is made from one archive, prepared where that is possible.

    A copy already prepared in `data_dir` is used. Otherwise one is prepared from the archive in
    `data_dir/downloads/manual`: in `data_dir` itself, or, when that is read-only, in the cache
    folder under the archive's MD5, so that different archives never share a copy.

    Args:
        make_builder: function from a folder to the builder in it. It prepares from `archive`, the
            path that is set here, or fetches where that is None.
        name: the dataset, for messages.
        file_name: name of the archive.
        data_dir: the TFDS folder.
        download: fetch the archive when it is not there.
    """
    archive = data_dir / "downloads" / "manual" / file_name  # where TFDS looks, too
    folder = data_dir
    builder = make_builder(folder)
    if builder.info.splits:
        known = (builder.info.metadata or {}).get(ARCHIVE_MD5)
        if archive.is_file() and known and known != archives.md5(archive):
            raise archives.ArchiveError(
                f"{builder.data_dir}: expected a copy prepared from the {file_name} in "
                f"{archive.parent}, received one of another file. Delete the folder to prepare "
                "it again, or remove the archive."
            )
        return builder
    if not archive.is_file() and not download:
        raise MissingDataError(
            f"{archive.parent}: expected {file_name}, which {name!r} is prepared from, "
            "received none. Put it there, set --data_dir or TFDS_DATA_DIR to another "
            f"folder, or run `s2d data {name} --download`."
        )
    if not archive.is_file():
        _check_can_fetch(file_name, data_dir)
    elif not is_writable(data_dir):
        folder = cache_dir() / "prepared" / archives.md5(archive)
        builder = make_builder(folder)
        if builder.info.splits:
            return builder
    import tensorflow_datasets as tfds

    builder.archive = archive if archive.is_file() else None
    config = tfds.download.DownloadConfig(try_download_gcs=False)
    try:
        # Downloads go to the same folder: TFDS makes its subfolders even when it fetches nothing.
        builder.download_and_prepare(download_dir=str(folder / "downloads"), download_config=config)
    except OSError:
        # Another process may have prepared the same copy meanwhile. TFDS moves a finished copy
        # into place in one step, so what is there is whole.
        if not (pathlib.Path(builder.data_dir) / "dataset_info.json").is_file():
            raise
    return make_builder(folder)


def _check_can_fetch(what, data_dir):
    if not is_writable(data_dir):
        raise MissingDataError(
            f"{data_dir}: expected a folder to fetch {what} to, received a read-only one. "
            "Set another --data_dir."
        )


def to_32x32(*_: Any) -> Callable[[Tensor, Tensor], Tensor]:
    """The function (index, image) -> image: those of TFDS' own datasets have their size."""
    return lambda index, image: image


def read_split(
    builder: Any, split: str, transform: Callable[[Tensor, Tensor], Tensor]
) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of one split, in the order of its files.

    Args:
        builder: a prepared builder with features "image" and "label".
        split: name of the split.
        transform: function (index, uint8 [h, w, 3]) -> uint8 [H, W, 3], in a graph.
    """
    import tensorflow as tf
    import tensorflow_datasets as tfds

    dataset = builder.as_dataset(
        split=split,
        as_supervised=True,
        shuffle_files=False,
        decoders={"image": tfds.decode.SkipDecoding()},
        # Files one after the other: with several read at once the order would depend on their
        # number.
        read_config=tfds.ReadConfig(interleave_cycle_length=1, try_autocache=False),
    )

    def decode(index, example):
        encoded, label = example
        return transform(index, archives.decode_picture(encoded)), label

    dataset = dataset.enumerate().map(decode, num_parallel_calls=tf.data.AUTOTUNE)
    batches = list(dataset.batch(1_000).as_numpy_iterator())
    images = np.concatenate([images for images, _ in batches])
    return images, np.concatenate([labels for _, labels in batches]).astype(np.int64)
