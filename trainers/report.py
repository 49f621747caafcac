"""Writes a web page with tables, plots and the paper's claims from your runs.

usage: s2d report RUNS... [--out=DIR] [--data_dir=DIR] [--data=FOLDER]

    s2d report runs/* --out=report
    s2d report runs/* results/shift/shift.json --out=report   # with a study of shift

RUNS are evaluated run directories (`s2d evaluate`), names or folders of zoo entries, and files of
`s2d study shift`. The page, report.html, is self-contained.
"""

from absl import flags

from . import _flags

_OUT = flags.DEFINE_string("out", "s2d_report", "Folder to write to.")
_DATA_DIR = _flags.data_dir()
_DATA = _flags.moved_data()


def main(argv: list[str]) -> None:
    from . import studies

    runs = _flags.arguments(argv, "RUNS", "run directories", "s2d report runs/* --out=report", 1)
    path = studies.write_report(
        runs, _OUT.value, _DATA_DIR.value, images=_DATA.value, watch=_flags.WATCH
    )
    print(f"Wrote {path}")
