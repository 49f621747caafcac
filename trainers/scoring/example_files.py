"""Where inputs come from: a folder of images, TFRecord, Parquet, or lines of text.

A source yields its examples in a fixed order, starting at any of them, and keeps none in memory.
What cannot be read becomes an example with an error, so one damaged file does not stop the rest.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import pathlib
import struct
import typing
from collections.abc import Callable, Iterable, Iterator

import tensorflow as tf
from google.protobuf import message
from pyarrow import parquet

from s2d_tf import files
from s2d_tf.data import image_files

PARQUET, TEXT = (".parquet", ".pq"), (".txt", ".list", ".lst")
IMAGE_KEYS = ("image", "image/encoded", "image_bytes", "images", "img", "text")
LABEL_KEYS = ("label", "image/class/label", "labels", "fine_label")
MAX_IMAGE_BYTES = 64 << 20
_ROWS = 256


class Example(typing.NamedTuple):
    """One input: a file's bytes, pixels or text; or the reason why there is none."""

    name: str
    content: bytes | str | None = None
    label: int | str | None = None
    error: str = ""


class Source(typing.NamedTuple):
    """Examples from files.

    Attributes:
        count: number of examples.
        find: function that yields the files.
        read: function that yields all examples from a number on, in the same order each time.
    """

    count: int  # type: ignore[assignment]  # which no one calls as a tuple's
    find: Callable[[], Iterable[pathlib.Path]]
    read: Callable[[int], Iterator[Example]]

    def fingerprint(self) -> str:
        """Digest of the names, sizes and times of all files."""
        digest = hashlib.sha256()
        for path in self.find():
            facts = path.stat()
            text = f"{path.absolute()}\0{facts.st_size}\0{facts.st_mtime_ns}\0"
            digest.update(text.encode(errors="replace"))
        return digest.hexdigest()


def open_source(
    path: str | os.PathLike,
    image_key: str | None = None,
    label_key: str | None = None,
    of_texts: bool = False,
) -> Source:
    """Opens inputs.

    Args:
        path: a folder of JPEG or PNG files, which may be in subfolders; a TFRecord or Parquet file,
            or a folder of such files; or a text file (`.txt`) with one input per line.
        image_key, label_key: feature or column of the inputs and of the labels; default: the usual
            names.
        of_texts: whether the lines of a text file are the inputs themselves, not paths of images.

    Returns:
        A `Source`: its `count`, and `read(start)`, an iterator from any place.

    Raises:
        ValueError: it is none of these, or has no example.

    Example:

    >>> source = scoring.open_source("pictures")
    >>> source.count, next(source.read(0)).label
    (8, 'cat')
    """
    path = pathlib.Path(path).expanduser()
    keys = (image_key,) if image_key else IMAGE_KEYS, (label_key,) if label_key else LABEL_KEYS
    inside = path.iterdir() if path.is_dir() else [path]
    found = sorted(each for each in inside if each.is_file())
    tables = [each for each in found if each.suffix in PARQUET]
    records = [each for each in found if ".tfrecord" in each.name]
    # Partial functions, since Beam sends sources to other processes.
    find: Callable = functools.partial(iter, tables or records or found)
    if tables or records:
        chunks = [chunk for each in tables for chunk in _row_groups(each)]
        chunks = chunks or [(each, 0, 0, _count_records(each)) for each in records]
        read: Callable = functools.partial(_rows, _parquet if tables else _tfrecord, chunks, keys)
        count = sum(rows for *_, rows in chunks)
    elif path.is_dir():
        find = functools.partial(image_files.find, path)
        read = functools.partial(_images, path)
        count = sum(1 for _ in find())
    elif found and path.suffix in TEXT:
        read = functools.partial(_lines, path, of_texts)
        count = sum(1 for _ in _lines(path, of_texts=True))
    else:
        raise ValueError(
            "inputs: expected a folder of images, a .tfrecord, .parquet or .txt file, received "
            f"{str(path)!r}. Check the path, or rename it if it is one of these."
        )
    if not count:
        raise ValueError(f"{path}: expected at least one input, received none. Add inputs.")
    return Source(count, find, read)


def _images(folder, start):
    """The JPEG and PNG files of a folder; the first folder below it may be the class."""
    for path in itertools.islice(image_files.find(folder), start, None):
        name = path.relative_to(folder)
        yield _image_file(str(name), path, name.parts[0] if len(name.parts) > 1 else None)


def _lines(path, of_texts, start=0):
    """The lines of a text file that are not empty: texts, or paths of images."""
    with open(path, "rb") as file:
        numbered = ((i, line.rstrip(b"\r\n")) for i, line in enumerate(file, 1) if line.strip())
        for number, line in itertools.islice(numbered, start, None):
            name = f"{path.name}:{number}"
            whole = path.parent / os.fsdecode(line)
            yield Example(name, line) if of_texts else _image_file(name, whole)


def _rows(read, chunks, keys, start):
    """Rows of files, each `(path, group, first row, number of rows)` read at once.

    A damaged file ends where it is damaged.
    """
    for path, group, first, rows in chunks:
        done = min(start, rows)
        start -= done
        with contextlib.suppress(OSError, ValueError, tf.errors.OpError):
            for values in read(path, group, done, keys) if done < rows else ():
                yield _example(f"{path.name}:{first + done}", values, keys)
                done += 1
        for number in range(first + done, first + rows):
            yield Example(f"{path.name}:{number}", error="the file is damaged here")


def _tfrecord(path, group, start, keys):
    for record in tf.data.TFRecordDataset(str(path)).skip(start).as_numpy_iterator():
        try:
            features = tf.train.Example.FromString(record).features.feature
        except message.DecodeError:
            features = {}
        values = {name: [*f.bytes_list.value, *f.int64_list.value] for name, f in features.items()}
        yield {name: items[0] for name, items in values.items() if items}


def _parquet(path, group, start, keys):
    file = parquet.ParquetFile(path)
    wanted = [name for name in file.schema_arrow.names if name in sum(keys, ())]
    for batch in file.iter_batches(_ROWS, row_groups=[group], columns=wanted):
        skipped = min(start, len(batch))
        start -= skipped
        yield from batch.slice(skipped).to_pylist()


def _row_groups(path):
    try:
        metadata = parquet.ParquetFile(path).metadata
    except (OSError, ValueError) as error:  # pyarrow raises both
        raise ValueError(
            f"{path}: expected a Parquet file, received {str(error)[:200]!r}. Remove or restore it."
        ) from None
    sizes = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return [(path, group, sum(sizes[:group]), size) for group, size in enumerate(sizes)]


def _image_file(name, path, label=None):
    name = os.fsencode(name).decode("utf-8", "backslashreplace")
    try:
        return Example(name, files.read_bytes(path, MAX_IMAGE_BYTES), label)
    except ValueError as error:
        return Example(name, error=str(error))


def _example(name, values, keys):
    content, label = (
        next((values[key] for key in own if values.get(key) is not None), None) for own in keys
    )
    if isinstance(content, dict):  # as Hugging Face stores images
        content = content.get("bytes")
    if not isinstance(content, (bytes, str)):
        reason = f"expected an image or a text as {' or '.join(keys[0])}, received {sorted(values)}"
        return Example(name, error=reason)
    label = label.decode(errors="replace") if isinstance(label, bytes) else label
    return Example(name, content, label if isinstance(label, (int, str)) else None)


def _count_records(path):
    """Records according to the lengths in a file; one that is cut off counts, as damaged."""
    count, position, size = 0, 0, path.stat().st_size
    with open(path, "rb") as file:
        while position < size:
            file.seek(position)
            # 8 bytes of length and their checksum, the data and its checksum
            position += 16 + struct.unpack("<Q", file.read(8).ljust(8, b"\xff"))[0]
            count += 1
    return count
