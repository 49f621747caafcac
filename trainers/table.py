"""Prints the paper's tables, filled in with your runs.

usage: s2d table RUNS... [--table=N] [--format=text|markdown|csv] [--keep=DIR]

    s2d table runs/*
    s2d table runs/* --table=3 --format=markdown
    s2d table runs/* --keep=results      # copy the runs' numbers, write tables.md

RUNS are evaluated run directories (`s2d evaluate`), and names or folders of zoo entries; with
--keep, run directories and folders of `s2d tune`. Tables have the paper's layout: mean ± 2 standard
deviations over seeds, the best of a column in bold, the best overall marked, and the published
number in brackets. An ensemble's members count as seeds of its single models. Runs on data other
than CIFAR-100 get an overview. See docs/evaluation.md.
"""

from absl import flags

from . import _flags

_TABLE = flags.DEFINE_integer(
    "table", None, "Number of the table in the paper (default: all with data)."
)
_FORMAT = _flags.table_format()
_KEEP = flags.DEFINE_string(
    "keep", None, "Folder for copies of the runs' JSON files and their tables."
)


def main(argv: list[str]) -> None:
    from s2d_tf.evaluation import tables

    from . import studies

    runs = _flags.arguments(argv, "RUNS", "run directories", "s2d table runs/*", 1)
    if _KEEP.value:
        print(f"Wrote {studies.archive(runs, _KEEP.value)}")
        return
    made = studies.tables_of(studies.collect(runs), _TABLE.value)
    texts = [tables.render(table, _FORMAT.value) for table in made]
    # A caption is no row of a CSV file, but several tables need telling apart.
    if _FORMAT.value == "csv" and len(made) > 1:
        texts = [f"# {table.caption}\n{text}" for table, text in zip(made, texts, strict=True)]
    print("\n".join(texts), end="")
