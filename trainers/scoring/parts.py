"""Results that survive a kill: parts that are written whole, joined at the end.

Part `i` holds the answers for the examples from `i * rows` on, and the list of those that were
skipped, in one file: there is no moment at which a row is lost or written twice.
"""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
import shutil
from typing import TYPE_CHECKING

import pyarrow
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from s2d_tf import files
from s2d_tf._types import PathLike

from .rows import FORMATS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

SKIPPED = b"s2d_skipped"


class Parts:
    """The parts of one result, in a folder beside it.

    Args:
        out: the file to make, `.parquet` or `.csv`.
        key: JSON values that decide the result; a folder of other values is rejected.
        about: what else the summary says.
    """

    def __init__(self, out: PathLike, key: dict, about: dict) -> None:
        self.out = pathlib.Path(out).expanduser()
        if self.out.suffix not in FORMATS:
            raise ValueError(
                f"out: expected a file that ends in {' or '.join(FORMATS)}, received {self.out}."
                " Choose another name."
            )
        self.folder = self.out.with_name(f"{self.out.name}.parts")
        self.summary = self.out.with_name(f"{self.out.name}.json")
        self.skipped = self.out.with_name(f"{self.out.name}.skipped.csv")
        self.key = key
        self.about = about

    @property
    def finished(self) -> dict | None:
        """The summary, if the result is whole and of the same key."""
        held = self._read(self.summary)
        return held if self.out.is_file() and held and held.get("key") == self.key else None

    def begin(self) -> AbstractContextManager[None]:
        """Makes the folder, or opens that of the same result; returns its lock."""
        path = self.folder / "key.json"
        held = self._read(path)
        if held not in (None, self.key) or (held is None and self.out.exists()):
            what = self.folder if held else self.out
            raise ValueError(
                f"out: expected a new file, received {self.out}, and {what.name} is of another "
                "model, other inputs or other flags. Remove it, or choose another --out."
            )
        if held is None:
            files.write_json(path, self.key)
        return files.locked(self.folder / "lock")

    @property
    def count(self) -> int:
        """How many parts are done; they are the first ones."""
        count = 0
        while self._path(count).is_file():
            count += 1
        return count

    def missing(self, total: int) -> list[int]:
        """Those of `total` parts that are not done; workers may finish them in any order."""
        return [index for index in range(total) if not self._path(index).is_file()]

    def write(self, index: int, columns: list[dict], skipped: list[tuple[str, str]]) -> None:
        """Writes a part from the columns of its batches."""
        tables = [pyarrow.table(batch) for batch in columns]
        table = pyarrow.concat_tables(tables, promote_options="permissive") if tables else None
        table = pyarrow.table({}) if table is None else table
        table = table.replace_schema_metadata({SKIPPED: json.dumps(skipped).encode()})
        with files.written_beside(self._path(index)) as temporary:
            parquet.write_table(table, temporary)

    def join(self) -> None:
        """Writes the list of skipped inputs and, if there is a row, the result and its summary."""
        paths = [self._path(i) for i in range(self.count)]
        schemas = [parquet.read_schema(path) for path in paths]
        skipped = [pair for schema in schemas for pair in json.loads(schema.metadata[SKIPPED])]
        plain = [schema.remove_metadata() for schema in schemas if schema.names]
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("input", "reason"), *skipped])
        self._place(self.skipped, lambda draft: files.write_text(draft, text.getvalue()))
        if not plain:
            return
        schema = pyarrow.unify_schemas(plain, promote_options="permissive")
        self._place(self.out, lambda draft: _join(paths, draft, schema))
        rows = sum(parquet.read_metadata(path).num_rows for path in paths)
        summary = {**self.about, "rows": rows, "skipped": len(skipped), "key": self.key}
        self._place(self.summary, lambda draft: files.write_json(draft, summary))

    def clean(self) -> None:
        """Removes the parts, which are in the result."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _place(self, path, write):
        """Writes a file in the folder of the parts, where a kill leaves it, and moves it."""
        draft = self.folder / path.name
        write(draft)
        os.replace(draft, path)
        files.flush(path.parent)

    def _path(self, index):
        return self.folder / f"part-{index:06d}.parquet"

    def _read(self, path):
        try:
            return files.read_json(path)
        except (OSError, ValueError):
            return None


def _join(paths, out, schema):
    with files.written_beside(out) as temporary, _writer(temporary, schema) as writer:
        for path in paths:
            table = parquet.read_table(path)
            if table.num_rows:
                writer.write_table(_conform(table, schema))


def _writer(path, schema):
    if path.suffix == ".csv":
        return arrow_csv.CSVWriter(str(path), schema)
    return parquet.ParquetWriter(path, schema)


def _conform(table, schema):
    """The columns of a table in the order and the types of the whole: one may be all unknown."""
    return pyarrow.table(
        [table[name].cast(schema.field(name).type) for name in schema.names], schema
    )
