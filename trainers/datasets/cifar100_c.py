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

import numpy as np
from tqdm.auto import tqdm

from s2d_tf import data, files
from s2d_tf.data import hashing
from s2d_tf.errors import UserError

from . import SEVERITIES
from .corruptions import corrupt

GENERATED = "cifar100_c_generated"
# Part of the path of all that was generated: raise it when a formula changes.
VERSION = "1.0.0"
SEED = 0

FILE_NAME = "CIFAR-100-C.tar"
URL = "https://zenodo.org/records/3555552/files/CIFAR-100-C.tar"
OFFICIAL_MD5 = "11f0ed0f1191edbf9fa23466ae6021d3"  # as on the page of the Zenodo record
_BATCH = 250


def load(name: str, split: str, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """Images uint8 [10000, 32, 32, 3] and labels int64 [10000] of one condition."""
    dataset, corruption, severity = _parts(name)
    if dataset != GENERATED:
        return _read_published(_published(data_dir, name), corruption, severity)
    path = _path(name, data_dir)
    if not path.is_file():
        fetch(name, data_dir)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise data.ArchiveError(
            f"{path}: expected an array of images, received a file that NumPy cannot read "
            f"({error}). Delete the file to generate it again."
        ) from error
    return array.view(np.ndarray), _source(data_dir)[1]


def read_first(name: str, count: int, data_dir: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    """The first images and labels of one condition, as `load` has them, for a quick look.

    A condition that has not been generated yet is computed for these images only, and not kept.

    Args:
        name: the dataset with its condition.
        count: how many images.
        data_dir: TFDS folder.
    """
    dataset, corruption, severity = _parts(name)
    if dataset == GENERATED and not _path(name, data_dir).is_file():
        images, labels, _ = _source(data_dir)
        return corrupt(images[:count], corruption, severity, seed=SEED), labels[:count]
    images, labels = load(name, "test", data_dir)
    return images[:count], labels[:count]


def fetch(name: str, data_dir: pathlib.Path) -> None:
    """Generates one condition, or all of them when `name` has none; those that exist are kept.

    Each is written completely or not at all, several at once: NumPy releases Python's lock.
    """
    dataset, dot, _ = name.partition(".")
    if dataset != GENERATED:
        _published(data_dir, name)
        return
    wanted = [name] if dot else [f"{name}.{each}" for each in data.info(name).conditions]
    paths = {each: _path(each, data_dir) for each in wanted}
    missing = {each: path for each, path in paths.items() if not path.is_file()}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        # On an error, `map` cancels those that have not begun.
        made = pool.map(functools.partial(_generate, data_dir), missing, missing.values())
        list(tqdm(made, dataset, len(missing), unit=" conditions", disable=not missing))


def _generate(data_dir, name, path):
    _, corruption, severity = _parts(name)
    images, _, _ = _source(data_dir)
    with files.written_beside(path) as temporary:
        array = np.lib.format.open_memmap(temporary, "w+", np.uint8, images.shape)
        for first in range(0, len(images), _BATCH):
            chosen = slice(first, first + _BATCH)
            array[chosen] = corrupt(
                images[chosen], corruption, severity, seed=SEED, first_index=first
            )
        array.flush()


def _parts(name):
    dataset, dot, condition = name.partition(".")
    UserError.unless(
        dot,
        f"name: expected {dataset} with a condition, such as '{dataset}.fog_3', received "
        f"{name!r}. `data.info({dataset!r}).conditions` lists them.",
    )
    corruption, _, severity = condition.rpartition("_")
    return dataset, corruption, int(severity)


@functools.cache
def _source(data_dir):
    """The clean images and labels, and a hash of every pixel in this order."""
    images, labels = data.load_arrays("cifar100", "test", data_dir)
    return images, labels, hashlib.sha256(images.tobytes()).hexdigest()[:16]


def _path(name, data_dir):
    """Where the array of a condition is, or where it will be."""
    inside = pathlib.Path(GENERATED, VERSION, _source(data_dir)[2], f"{name.partition('.')[2]}.npy")
    path = data_dir / inside
    return path if path.is_file() else data.writable_dir(data_dir) / inside


def _published(data_dir, name):
    path = data_dir / "downloads" / "manual" / FILE_NAME
    data.MissingDataError.unless(
        path.is_file(),
        f"{path.parent}: expected {FILE_NAME} (2.9 GB), which {name!r} is read from, received "
        f"none. Put it there from {URL}, set --data_dir or TFDS_DATA_DIR to another folder, or "
        f"use {GENERATED}, which needs only CIFAR-100.",
    )
    _check_once(path, OFFICIAL_MD5)
    return path


# Once a process: the archive is large, and there is one call for each condition.
_check_once = functools.cache(hashing.check_digest)


def _read_published(path, corruption, severity):
    """One fifth of an array in the archive, mapped: a tar without compression holds it as it is."""
    images, labels = (_map_member(path, f"{name}.npy") for name in (corruption, "labels"))
    count = len(images) // len(SEVERITIES)
    chosen = slice((severity - 1) * count, severity * count)
    return images[chosen].view(np.ndarray), labels[chosen]


def _map_member(path, member):
    with tarfile.open(path, "r:") as tar, path.open("rb") as file:
        file.seek(tar.getmember(f"CIFAR-100-C/{member}").offset_data)
        np.lib.format.read_magic(file)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
        return np.memmap(path, dtype, "r", file.tell(), shape)
