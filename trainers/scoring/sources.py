"""Where inputs come from: a folder of images, TFRecord, Parquet, or lines of text.

A source yields its examples in a fixed order, starting at any of them, and keeps none in memory.
What cannot be read becomes an example with an error, so one damaged file does not stop the rest.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pathlib
import struct
import typing
from collections.abc import Iterator, Sequence

import numpy as np
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
    content: typing.Any = None
    label: int | str | None = None
    error: str = ""


class Source:
    """Examples from files.

    Attributes:
        paths: the files.
        count: number of examples.
    """

    paths: typing.Any
    count: int

    def examples(self, start: int = 0) -> Iterator[Example]:
        """Yields all examples from number `start` on, in the same order each time."""
        raise NotImplementedError

    def fingerprint(self) -> str:
        """Digest of the names, sizes and times of all files."""
        digest = hashlib.sha256()
        for path in self.paths:
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
        A `Source`: its `count`, and `examples(start)`, an iterator from any place.

    Raises:
        ValueError: it is none of these, or has no example.

    Example:

    >>> source = scoring.open_source("pictures")
    >>> source.count, next(source.examples()).label
    (8, 'cat')
    """
    path = pathlib.Path(path).expanduser()
    keys = (image_key,) if image_key else IMAGE_KEYS, (label_key,) if label_key else LABEL_KEYS
    if not path.exists():
        raise ValueError(
            f"inputs: expected a file or a folder, received {str(path)!r}, which does not exist. "
            "Check the path."
        )
    found = [path] if path.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    if tables := [each for each in found if each.suffix in PARQUET]:
        source = Parquet(tables, keys)
    elif records := [each for each in found if ".tfrecord" in each.name]:
        source = TFRecords(records, keys)
    elif path.is_dir():
        source = Images(path)
    elif path.suffix in TEXT:
        source = Lines(path, of_texts)
    else:
        raise ValueError(
            "inputs: expected a folder of images, a .tfrecord, .parquet or .txt file, received "
            f"{str(path)!r}. Rename it if it is one of these."
        )
    if not source.count:
        raise ValueError(f"{path}: expected at least one input, received none. Add inputs.")
    return source


class Images(Source):
    """The JPEG and PNG files of a folder; the first folder below it may be the class."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.count = sum(1 for _ in self.paths)

    @property
    def paths(self) -> Iterator[pathlib.Path]:
        return image_files.find(self.folder)

    def examples(self, start: int = 0) -> Iterator[Example]:
        for path in itertools.islice(self.paths, start, None):
            name = path.relative_to(self.folder)
            yield _image_file(str(name), path, name.parts[0] if len(name.parts) > 1 else None)


class Lines(Source):
    """The lines of a text file that are not empty: texts, or paths of images."""

    def __init__(self, path: pathlib.Path, of_texts: bool) -> None:
        self.paths = [path]
        self.of_texts = of_texts
        self.count = sum(1 for _ in self._lines())

    def _lines(self):
        with open(self.paths[0], encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                if line := line.rstrip("\r\n"):
                    yield f"{self.paths[0].name}:{number}", line

    def examples(self, start: int = 0) -> Iterator[Example]:
        for name, line in itertools.islice(self._lines(), start, None):
            if not self.of_texts:
                yield _image_file(name, self.paths[0].parent / line)
            elif any("\ud800" <= each <= "\udfff" for each in line):
                yield Example(name, error="the line is not UTF-8")
            else:
                yield Example(name, line)


class _Rows(Source):
    """Rows of several files; a damaged file ends where it is damaged.

    A subclass defines `_values(path, group, start)`, which yields a dict for each row of a chunk.

    Args:
        paths: the files.
        keys: names of the inputs and of the labels.
        chunks: `(path, group, first row, number of rows)` of everything that is read at once.
    """

    def __init__(self, paths: Sequence[pathlib.Path], keys: tuple, chunks: list[tuple]) -> None:
        self.paths = paths
        self.chunks = chunks
        self.count = sum(rows for *_, rows in chunks)
        self._keys = keys

    def examples(self, start: int = 0) -> Iterator[Example]:
        for path, group, first, rows in self.chunks:
            done = min(start, rows)
            start -= done
            with contextlib.suppress(OSError, ValueError, tf.errors.OpError):
                for values in self._values(path, group, done) if done < rows else ():
                    yield _example(f"{path.name}:{first + done}", values, self._keys)
                    done += 1
            for number in range(first + done, first + rows):
                yield Example(f"{path.name}:{number}", error="the file is damaged here")


class TFRecords(_Rows):
    """The `tf.train.Example`s of files."""

    def __init__(self, paths: Sequence[pathlib.Path], keys: tuple) -> None:
        super().__init__(paths, keys, [(path, 0, 0, _count_records(path)) for path in paths])

    def _values(self, path, group, start):
        for record in tf.data.TFRecordDataset(str(path)).skip(start).as_numpy_iterator():
            try:
                features = tf.train.Example.FromString(record).features.feature
            except message.DecodeError:
                features = {}
            yield {name: _feature(features[name]) for name in features}


class Parquet(_Rows):
    """The rows of files; images as bytes, as `{"bytes", "path"}` or as lists of pixels."""

    def __init__(self, paths: Sequence[pathlib.Path], keys: tuple) -> None:
        chunks = []
        for path in paths:
            try:
                metadata = parquet.ParquetFile(path).metadata
            except (OSError, ValueError) as error:  # pyarrow raises both
                raise ValueError(
                    f"{path}: expected a Parquet file, received {str(error)[:200]!r}. Remove or "
                    "restore it."
                ) from None
            first = 0
            for group in range(metadata.num_row_groups):
                chunks.append((path, group, first, metadata.row_group(group).num_rows))
                first += chunks[-1][-1]
        super().__init__(paths, keys, chunks)

    def _values(self, path, group, start):
        file = parquet.ParquetFile(path)
        wanted = [name for name in file.schema_arrow.names if name in sum(self._keys, ())]
        for batch in file.iter_batches(_ROWS, row_groups=[group], columns=wanted):
            skipped = min(start, len(batch))
            start -= skipped
            yield from batch.slice(skipped).to_pylist()


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
    content = np.asarray(content) if isinstance(content, list) else content
    if not isinstance(content, (bytes, str, np.ndarray)):
        reason = f"expected an image or a text as {' or '.join(keys[0])}, received {sorted(values)}"
        return Example(name, error=reason)
    label = label[0] if isinstance(label, list) and len(label) == 1 else label
    return Example(name, content, label if isinstance(label, (int, str)) else None)


def _feature(feature):
    kind = feature.WhichOneof("kind")
    values = getattr(feature, kind).value if kind else []
    return values[0] if kind == "bytes_list" and len(values) == 1 else list(values)


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
