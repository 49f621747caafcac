"""Where inputs come from: a folder of images, TFRecord, Parquet, or lines of text.

A source gives its examples in a fixed order, from any of them on, and keeps none in memory. What
cannot be read becomes an example with an error, so that one damaged file stops nothing.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pathlib
import struct
import typing
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from s2d_tf import files
from s2d_tf._types import PathLike

IMAGES = (".jpg", ".jpeg", ".png")
PARQUET, TEXT = (".parquet", ".pq"), (".txt", ".list", ".lst")
IMAGE_KEYS = ("image", "image/encoded", "image_bytes", "images", "img", "text")
LABEL_KEYS = ("label", "image/class/label", "labels", "fine_label")
MAX_IMAGE_BYTES = 64 << 20
_ROWS = 256


class Example(typing.NamedTuple):
    """One input: a file's bytes, pixels or text; or why there is none."""

    name: str
    content: typing.Any = None
    label: int | str | None = None
    error: str = ""


class Source(typing.Protocol):
    """What `open_source` returns."""

    count: int
    """Number of examples."""

    @property
    def paths(self) -> Iterable[pathlib.Path]:
        """The files that decide them."""

    def examples(self, start: int = 0) -> Iterator[Example]:
        """All examples from number `start` on, in the same order each time."""


def open_source(
    path: PathLike, image_key: str | None = None, label_key: str | None = None
) -> Source:
    """Opens inputs.

    Args:
        path: a folder of JPEG or PNG files, which may be in folders of their own; a TFRecord or
            Parquet file, or a folder of such; or a text file (`.txt`) of one input on each line,
            which is a path for a model of images and the input itself for a model of text.
        image_key, label_key: feature or column of the inputs and of the true labels; default: the
            usual names.

    Returns:
        A `Source`: its `count`, and `examples(start)`, an iterator from any place.

    Raises:
        ValueError: it is none of these, or holds no example.

    Example:

    >>> source = prediction.open_source("pictures")
    >>> source.count, next(source.examples()).label
    (8, 'cat')
    """
    path = pathlib.Path(path).expanduser()
    keys = [image_key] if image_key else IMAGE_KEYS, [label_key] if label_key else LABEL_KEYS
    if path.is_dir():
        found = sorted(each for each in path.iterdir() if each.is_file())
        tables = [each for each in found if each.suffix in PARQUET]
        records = [each for each in found if _is_tfrecord(each)]
        source: Source = (
            Parquet(tables, *keys)
            if tables
            else TFRecords(records, *keys)
            if records
            else Images(path)
        )
    elif not path.is_file():
        raise ValueError(
            f"inputs: expected a file or a folder, received {path}, which is not available. "
            "Check the path."
        )
    elif path.suffix in PARQUET:
        source = Parquet([path], *keys)
    elif _is_tfrecord(path):
        source = TFRecords([path], *keys)
    elif path.suffix in TEXT:
        source = Lines(path)
    else:
        raise ValueError(
            f"inputs: expected a folder of images, a .tfrecord, .parquet or .txt file, received "
            f"{path}. Rename it if it is one of these."
        )
    if not source.count:
        raise ValueError(f"{path}: expected at least one input, received none. Add inputs.")
    return source


def fingerprint(source: Source) -> str:
    """Digest of the names, sizes and times of all files of a source."""
    digest = hashlib.sha256()
    for path in source.paths:
        facts = path.stat()
        digest.update(
            f"{path.absolute()}\0{facts.st_size}\0{facts.st_mtime_ns}\0".encode(errors="replace")
        )
    return digest.hexdigest()


class Images:
    """The JPEG and PNG files of a folder; the first folder below it may be the class."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.count = sum(1 for _ in self.paths)

    @property
    def paths(self) -> Iterator[pathlib.Path]:
        for parent, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if name.lower().endswith(IMAGES) and not name.startswith("."):
                    yield pathlib.Path(parent, name)

    def examples(self, start: int = 0) -> Iterator[Example]:
        for path in itertools.islice(self.paths, start, None):
            name = path.relative_to(self.folder)
            label = name.parts[0] if len(name.parts) > 1 else None
            yield _read(str(name), path, label)


class Lines:
    """The lines of a text file; empty ones are none."""

    def __init__(self, path: pathlib.Path) -> None:
        self.paths = [path]
        self.count = sum(1 for _ in self._lines())

    def _lines(self):
        with open(self.paths[0], encoding="utf-8", errors="surrogateescape") as file:
            for number, line in enumerate(file, start=1):
                if line := line.rstrip("\r\n"):
                    yield number, line

    def examples(self, start: int = 0) -> Iterator[Example]:
        for number, line in itertools.islice(self._lines(), start, None):
            try:
                yield Example(f"{self.paths[0].name}:{number}", line.encode("utf-8").decode())
            except UnicodeEncodeError:
                yield Example(f"{self.paths[0].name}:{number}", error="the line is not UTF-8")


class TFRecords:
    """The `tf.train.Example`s of files; a damaged file ends where it is damaged."""

    def __init__(
        self, paths: Sequence[pathlib.Path], image_keys: Sequence[str], label_keys: Sequence[str]
    ) -> None:
        self.paths = paths
        self._keys = image_keys, label_keys
        self._counts = [_count_records(path) for path in paths]
        self.count = sum(self._counts)

    def examples(self, start: int = 0) -> Iterator[Example]:
        import tensorflow as tf

        for path, count in zip(self.paths, self._counts, strict=True):
            if start >= count:
                start -= count
                continue
            done, start = start, 0
            dataset = tf.data.TFRecordDataset(str(path))
            for size in (_ROWS, 1):  # One by one where a batch holds a damaged record.
                with contextlib.suppress(tf.errors.OpError):
                    for batch in dataset.skip(done).batch(size).as_numpy_iterator():
                        for record in batch:
                            yield self._parse(f"{path.name}:{done}", record)
                            done += 1
                    break
            for number in range(done, count):
                yield Example(f"{path.name}:{number}", error="the file is damaged here")

    def _parse(self, name, record):
        import tensorflow as tf
        from google.protobuf import message

        try:
            features = tf.train.Example.FromString(record).features.feature
        except message.DecodeError:
            return Example(name, error="the record is not a tf.train.Example")
        wanted = [key for key in itertools.chain(*self._keys) if key in features]
        values = {key: _values(features[key]) for key in wanted or features}
        return _example(name, values, self._keys)


class Parquet:
    """The rows of files; of images as bytes, as `{"bytes", "path"}` or as lists of pixels."""

    def __init__(
        self, paths: Sequence[pathlib.Path], image_keys: Sequence[str], label_keys: Sequence[str]
    ) -> None:
        from pyarrow import parquet

        self.paths = paths
        self._keys = image_keys, label_keys
        self._groups = []
        for path in paths:
            try:
                metadata = parquet.ParquetFile(path).metadata
            except (OSError, ValueError) as error:  # pyarrow's are of both kinds
                raise ValueError(
                    f"{path}: expected a Parquet file, received {str(error)[:200]!r}. Remove or "
                    "restore it."
                ) from None
            first = 0
            for group in range(metadata.num_row_groups):
                rows = metadata.row_group(group).num_rows
                self._groups.append((path, group, first, rows))
                first += rows
        self.count = sum(rows for *_, rows in self._groups)

    def examples(self, start: int = 0) -> Iterator[Example]:
        from pyarrow import parquet

        for path, group, first, rows in self._groups:
            if start >= rows:
                start -= rows
                continue
            done, start = start, 0
            with contextlib.suppress(OSError, ValueError):
                file = parquet.ParquetFile(path)
                wanted = [
                    c for c in file.schema_arrow.names if c in {*self._keys[0], *self._keys[1]}
                ]
                batches = file.iter_batches(_ROWS, row_groups=[group], columns=wanted)
                skip = done
                for batch in batches:
                    for row in batch.slice(min(skip, len(batch))).to_pylist():
                        yield _example(f"{path.name}:{first + done}", row, self._keys)
                        done += 1
                    skip = max(0, skip - len(batch))
            for number in range(done, rows):
                yield Example(f"{path.name}:{first + number}", error="the file is damaged here")


def read_path(example: Example, folder: pathlib.Path) -> Example:
    """The example of a line that names an image file."""
    return _read(example.name, folder / example.content, None)


def _read(name, path, label):
    try:
        return Example(name, files.read_bytes(path, MAX_IMAGE_BYTES), label)
    except ValueError as error:
        return Example(name, error=str(error))


def _example(name, values, keys):
    key = next((key for key in keys[0] if values.get(key) is not None), None)
    if key is None:
        return Example(
            name, error=f"expected one of {', '.join(keys[0])}, received {sorted(values)}"
        )
    content = values[key]
    if isinstance(content, dict):  # as Hugging Face stores images
        content = content.get("bytes")
    label = next((values[key] for key in keys[1] if values.get(key) is not None), None)
    label = label[0] if isinstance(label, list) and len(label) == 1 else label
    if isinstance(content, list):
        content = np.asarray(content)
    if not isinstance(content, (bytes, str, np.ndarray)):
        return Example(name, error=f"expected an image or text, received {type(content).__name__}")
    return Example(name, content, label if isinstance(label, (int, str)) else None)


def _values(feature):
    kind = feature.WhichOneof("kind")
    if kind is None:
        return None
    values = getattr(feature, kind).value
    return values[0] if kind == "bytes_list" and len(values) == 1 else list(values)


def _is_tfrecord(path):
    return ".tfrecord" in path.name


def _count_records(path):
    """Records that a file's lengths tell of; one that is cut off counts, since it is damaged."""
    count, position, size = 0, 0, path.stat().st_size
    with open(path, "rb") as file:
        while position < size:
            file.seek(position)
            head = file.read(8)
            count += 1
            if len(head) < 8:
                break
            # 8 bytes of length and their checksum, the data and its checksum
            position += 16 + struct.unpack("<Q", head)[0]
    return count
