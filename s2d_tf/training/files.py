"""Files that are there whole or not at all."""

import contextlib
import hashlib
import json
import os
import pathlib


def sha256(path):
    """Hex digest of a file."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextlib.contextmanager
def written_beside(path):
    """Yields a temporary path; on success it is flushed to disk and moved to `path`."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{os.getpid()}.{path.name}")  # keeps the suffix: Keras reads it
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


def write_json(path, values):
    """Writes readable JSON, whole or not at all."""
    write_text(path, json.dumps(values, indent=2) + "\n")


def write_text(path, text):
    """Writes a text file, whole or not at all."""
    with written_beside(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path):
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
