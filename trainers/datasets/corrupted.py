"""CIFAR-100-C by condition: generated here, or read from the published archive.

A dataset's name ends in its condition, as in `cifar100_c_generated.fog_3` and `cifar100_c.fog_3`.
The images are mapped from disk, so that going through all conditions takes no more memory than one.
"""

import concurrent.futures
import functools
import hashlib
import os
import pathlib
import tarfile
import time

import numpy as np

from s2d_tf import _progress, files
from s2d_tf.data import archives, loading, location

from . import corruption_names
from .corruptions import corrupt

GENERATED = "cifar100_c_generated"
# Part of the path of all that was generated: raise it when a formula changes.
VERSION = "1.0.0"
SEED = 0

FILE_NAME = "CIFAR-100-C.tar"
URL = "https://zenodo.org/records/3555552/files/CIFAR-100-C.tar"
OFFICIAL_MD5 = "11f0ed0f1191edbf9fa23466ae6021d3"  # as on the page of the Zenodo record
_FOLDER = "CIFAR-100-C"

_BATCH = 250
_ABANDONED_SECONDS = 3600


def read(name: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [10000, 32, 32, 3] and labels int64 [10000] of one condition."""
    dataset, condition = _parts(name)
    if dataset == GENERATED:
        return _map_array(_generate([condition], data_dir)[0]), _source(data_dir)[1]
    return _read_published(*corruption_names.split_condition(condition), _archive(data_dir, name))


def read_first(name: str, count: int, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """The first images and labels of one condition, as `read` has them, for a quick look.

    A condition that has not been generated yet is computed for these images only, and not kept.

    Args:
        name: the dataset with its condition.
        count: how many images.
        data_dir: TFDS folder.
    """
    dataset, condition = _parts(name)
    if dataset == GENERATED:
        images, labels, _ = _source(data_dir)
        if count < len(images) and not _homes(condition, data_dir)[1]:
            corruption, severity = corruption_names.split_condition(condition)
            return corrupt(images[:count], corruption, severity, seed=SEED), labels[:count]
    images, labels = read(name, data_dir)
    return images[:count], labels[:count]


def read_clean(data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images and labels of the test set that conditions are versions of."""
    return _source(data_dir)[:2]


def identity(dataset: str, data_dir: pathlib.Path) -> str:
    """What decides the pixels of all conditions of a dataset, without reading them."""
    if dataset == GENERATED:
        return f"{GENERATED} {VERSION} {SEED} {_source(data_dir)[2]}"
    return f"{dataset} {OFFICIAL_MD5}"


def fetch(name: str, data_dir: pathlib.Path) -> None:
    """Generates one condition, or all of them when `name` has none; those that exist are kept."""
    dataset, dot, condition = name.partition(".")
    if dataset == GENERATED:
        _generate([condition] if dot else corruption_names.GENERATED, data_dir)
    else:
        _check_published(_archive(data_dir, name))


def check(name: str, data_dir: pathlib.Path) -> None:
    """Raises MissingDataError unless what the dataset is made from is in `data_dir`."""
    if name.partition(".")[0] == GENERATED:
        _source(data_dir)
    else:
        _archive(data_dir, name)


def _parts(name):
    dataset, dot, condition = name.partition(".")
    if not dot:
        raise ValueError(
            f"name: expected {dataset} with a condition, such as '{dataset}.fog_3', received "
            f"{name!r}. `data.conditions({dataset!r})` lists them."
        )
    return dataset, condition


@functools.cache
def _source(data_dir):
    """The clean images and labels, and a hash that their order and every pixel enter."""
    images, labels = loading.load_arrays("cifar100", "test", data_dir)
    return images, labels, hashlib.sha256(images.tobytes()).hexdigest()[:16]


def _generate(wanted, data_dir):
    """Paths of the arrays of `wanted`, after making those that do not exist."""
    paths, missing = [], []
    for condition in wanted:
        homes, found = _homes(condition, data_dir)
        if not found:
            found = [homes[0] if location.is_writable(data_dir) else homes[1]]
            missing.append((condition, found[0]))
        paths.append(found[0])
    if missing:
        _remove_abandoned(missing[0][1].parent)
        _write_all(_source(data_dir)[0], missing)
    return paths


def _homes(condition, data_dir):
    """Where the array of a condition may be, and where it is."""
    inside = pathlib.Path(GENERATED) / VERSION / _source(data_dir)[2]
    homes = [
        folder / inside / f"{condition}.npy"
        for folder in (data_dir, location.cache_dir() / "prepared")
    ]
    return homes, [path for path in homes if path.is_file()]


def _write_all(images, missing):
    """Writes each condition whole or not at all, several at once: NumPy leaves Python's lock."""
    label = missing[0][0] if len(missing) == 1 else f"{len(missing)} conditions"
    with (
        _progress.Bar(len(missing) * len(images), " images", label) as bar,
        concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool,
    ):
        jobs = [pool.submit(_write, images, a, b, bar.update) for a, b in missing]
        try:
            for job in concurrent.futures.as_completed(jobs):
                job.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _write(images, condition, path, advance):
    corruption, severity = corruption_names.split_condition(condition)
    with files.written_beside(path) as temporary:
        array = np.lib.format.open_memmap(temporary, "w+", np.uint8, images.shape)
        for first in range(0, len(images), _BATCH):
            batch = images[first : first + _BATCH]
            array[first : first + _BATCH] = corrupt(
                batch, corruption, severity, seed=SEED, first_index=first
            )
            advance(len(batch))
        array.flush()


def _remove_abandoned(folder):
    """Removes what a killed process left half-written; another may be at work just now."""
    for path in folder.glob(f"{files.PARTIAL}*"):
        if time.time() - path.stat().st_mtime > _ABANDONED_SECONDS:
            path.unlink(missing_ok=True)


def _map_array(path):
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise archives.ArchiveError(
            f"{path}: expected an array of images, received a file that NumPy cannot read "
            f"({error}). Delete the file to generate it again."
        ) from error
    return _checked(array, path)


def _checked(array, where):
    if array.dtype != np.uint8 or array.ndim != 4 or array.shape[1:] != (32, 32, 3):
        raise archives.ArchiveError(
            f"{where}: expected uint8 [n, 32, 32, 3], received {array.dtype} {list(array.shape)}. "
            "Delete the file to get it again."
        )
    return array.view(np.ndarray)


def _archive(data_dir, name):
    path = data_dir / "downloads" / "manual" / FILE_NAME
    if not path.is_file():
        raise location.MissingDataError(
            f"{path.parent}: expected {FILE_NAME} (2.9 GB), which {name!r} is read from, received "
            f"none. Put it there from {URL}, set --data_dir or TFDS_DATA_DIR to another folder, or "
            f"use {GENERATED}, which needs only CIFAR-100."
        )
    return path


def _read_published(corruption, severity, path):
    """One fifth of an array in the archive, mapped: a tar without compression holds it as it is."""
    _check_published(path)
    images = _map_member(path, f"{corruption}.npy")
    labels = _map_member(path, "labels.npy")
    if len(images) != len(labels) or len(images) % len(corruption_names.SEVERITIES):
        raise archives.ArchiveError(
            f"{path}: expected as many labels as images for each of five severities, received "
            f"{len(images):,} images and {len(labels):,} labels. Get it again from {URL}."
        )
    count = len(images) // len(corruption_names.SEVERITIES)
    chosen = slice((severity - 1) * count, severity * count)
    return _checked(images[chosen], path), labels[chosen].astype(np.int64)


def _check_published(path):
    status = path.stat()
    _check_once(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _check_once(path, size, modified):
    """Once a process: the archive is large, and there is one call for each condition."""
    del size, modified  # A changed file is read again.
    archives.check_md5(path, OFFICIAL_MD5)


def _map_member(path, member):
    try:
        with tarfile.open(path, "r:") as tar, path.open("rb") as file:
            file.seek(tar.getmember(f"{_FOLDER}/{member}").offset_data)
            version = np.lib.format.read_magic(file)
            read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_{version[1]}")
            shape, is_fortran, dtype = read_header(file)
            if is_fortran or dtype.hasobject:
                raise ValueError("expected a plain array in C order, received another")
            return np.memmap(path, dtype, "r", file.tell(), shape)
    except (tarfile.TarError, KeyError, ValueError, OSError, AttributeError) as error:
        raise archives.ArchiveError(
            f"{path}: expected an array in {_FOLDER}/{member}, received one that cannot be read "
            f"({error}). Get it again from {URL}."
        ) from error
