"""Files and folders that exist completely or not at all, and locks. No TensorFlow."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import json
import os
import pathlib
import secrets
import shutil
import socket
from collections.abc import Iterator
from typing import Any

from s2d_tf._types import Array, PathLike

PARTIAL = ".partial_"
"""How the names of unfinished files and folders begin; what a killed process left can go."""
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
"""The disk, the quota or the largest file size is used up."""


class DiskFullError(OSError):
    """There is no room to write `filename`; what was there before is whole."""

    def __str__(self) -> str:
        return (
            f"{self.filename}: expected room to write, received {self.strerror!r}. Free some "
            "space, then run the same command again."
        )


@contextlib.contextmanager
def room_for(path: PathLike) -> Iterator[None]:
    """Turns a full disk into a `DiskFullError` that names `path`.

    Example:

    >>> with files.room_for("big.bin"):
    ...     size = pathlib.Path("big.bin").write_bytes(b"content")
    """
    try:
        yield
    except Exception as error:
        tensorflow = errno.ENOSPC if "No space left on device" in str(error) else None
        number = getattr(error, "errno", tensorflow)
        if isinstance(error, DiskFullError) or number not in FULL:
            raise
        raise DiskFullError(number, os.strerror(number), str(path)) from error


@contextlib.contextmanager
def written_beside(path: PathLike) -> Iterator[pathlib.Path]:
    """Yields a temporary path; on success it is flushed to disk and moved to `path`.

    Example:

    >>> with files.written_beside("note.txt") as temporary:
    ...     size = temporary.write_text("all of it")
    >>> pathlib.Path("note.txt").read_text()
    'all of it'
    """
    path = pathlib.Path(path)
    # A random part, because process numbers repeat among the machines of a shared disk. The end
    # stays the same: Keras reads the suffix.
    temporary = path.with_name(f"{PARTIAL}{secrets.token_hex(4)}_{path.name}")
    try:
        with room_for(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            yield temporary
            flush(temporary)
            os.replace(temporary, path)
            flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextlib.contextmanager
def folder_written_beside(path: PathLike) -> Iterator[pathlib.Path]:
    """Yields an empty folder; on success it is flushed to disk and takes the place of `path`.

    One process at a time may write the same path.

    Example:

    >>> with files.folder_written_beside("entry") as folder:
    ...     files.write_text(folder / "card.md", "text")
    >>> sorted(path.name for path in pathlib.Path("entry").iterdir())
    ['card.md']
    """
    path = pathlib.Path(path)
    temporary = path.with_name(f"{PARTIAL}{path.name}")
    old = path.with_name(f"{PARTIAL}old_{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with room_for(path):
            temporary.mkdir(parents=True)
            yield temporary
            flush_folder(temporary)
            if path.exists():
                shutil.rmtree(old, ignore_errors=True)
                path.rename(old)
            temporary.rename(path)
            flush(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def flush(path: PathLike) -> None:
    """Flushes a file or a folder's entries to disk.

    Example:

    >>> files.write_text("note.txt", "abc")
    >>> files.flush("note.txt")
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: PathLike) -> None:
    """Flushes a folder and everything in it to disk.

    Example:

    >>> files.flush_folder(".")
    """
    for path in [*pathlib.Path(folder).rglob("*"), folder]:
        flush(path)


def sweep(directory: PathLike) -> None:
    """Removes what a killed process left unfinished; only for who holds the directory's lock.

    Example:

    >>> files.write_text(files.PARTIAL + "note.txt", "half of")
    >>> files.sweep(".")
    >>> list(pathlib.Path(".").glob(files.PARTIAL + "*"))
    []
    """
    for path in pathlib.Path(directory).rglob(f"{PARTIAL}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def write_json(path: PathLike, values: Any) -> None:
    """Writes readable JSON, whole or not at all.

    Example:

    >>> files.write_json("facts.json", {"seed": 0})
    >>> files.read_json("facts.json")
    {'seed': 0}
    """
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_text(path: PathLike, text: str) -> None:
    """Writes a text file, whole or not at all.

    Example:

    >>> files.write_text("note.txt", "abc")
    """
    write_bytes(path, text.encode("utf-8"))


def write_array(path: PathLike, array: Array) -> None:
    """Writes a NumPy array as `.npy`, whole or not at all.

    Example:

    >>> files.write_array("logits.npy", np.zeros([4, 3]))
    >>> np.load("logits.npy").shape
    (4, 3)
    """
    import numpy as np

    # In memory first: NumPy hides from its callers why a disk did not take a file.
    packed = io.BytesIO()
    np.save(packed, array, allow_pickle=False)
    write_bytes(path, packed.getbuffer())


def write_bytes(path: PathLike, data: bytes | memoryview) -> None:
    """Writes a file, whole or not at all.

    Example:

    >>> files.write_bytes("note.bin", b"abc")
    """
    with written_beside(path) as temporary:
        temporary.write_bytes(data)


@contextlib.contextmanager
def locked(path: PathLike, error: type[Exception] = RuntimeError) -> Iterator[None]:
    """Holds a lock file for this process; the system releases it when the process ends.

    Args:
        path: the lock file, in the folder that it protects.
        error: class of the error to raise if another process holds it.

    Example:

    >>> with files.locked("run.lock"):
    ...     files.write_text("note.txt", "no other process writes here now")
    """
    with open(path, "a+", encoding="utf-8") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder, folder = file.read().strip() or "another process", pathlib.Path(path).parent
            raise error(
                f"{folder}: expected a folder that no other process uses, received one in use by "
                f"{holder}. Wait for it, or choose another folder."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
