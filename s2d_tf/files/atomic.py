"""Files that are there whole or not at all."""

import contextlib
import errno
import hashlib
import json
import os
import pathlib
import secrets
import shutil

PARTIAL = ".partial_"
"""How the names of unfinished files and folders begin; what a killed process left can go."""


def sha256(path):
    """Hex digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def written_beside(path):
    """Yields a temporary path; on success it is flushed to disk and moved to `path`."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A random part, because process numbers repeat among the machines of a shared disk. The end
    # stays the same: Keras reads the suffix.
    temporary = path.with_name(f"{PARTIAL}{secrets.token_hex(4)}_{path.name}")
    try:
        yield temporary
        flush(temporary)
        os.replace(temporary, path)
        flush(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def flush(path):
    """Asks the system to bring a file or a folder's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sweep(directory):
    """Removes what a killed process left unfinished; only for who holds the directory's lock."""
    for path in pathlib.Path(directory).rglob(f"{PARTIAL}*"):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def is_disk_full(error):
    """Whether an error says that the disk, the quota or the largest file size is used up."""
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    return "No space left on device" in str(error)  # TensorFlow's own writers


def write_json(path, values):
    """Writes readable JSON, whole or not at all."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_text(path, text):
    """Writes a text file, whole or not at all."""
    with written_beside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
