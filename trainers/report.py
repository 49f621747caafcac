"""Writes a web page with tables, plots and the paper's claims from your runs.

usage: s2d report RUNS... [--out=DIR] [--data_dir=DIR] [--data=FOLDER] [--encoder=FOLDER]

    s2d report runs/* --out=report

RUNS are evaluated run directories (`s2d evaluate`). The page, report.html, is self-contained.
"""

from absl import flags

from s2d_tf import _flags

_OUT = flags.DEFINE_string("out", "s2d_report", "Folder to write to.")
_DATA_DIR = _flags.data_dir()
_DATA = _flags.moved_data()
_ENCODER = _flags.encoder()


def main(argv: list[str]) -> None:
    from s2d_tf import evaluation, paper

    if len(argv) < 2:
        raise ValueError(
            "RUNS: expected run directories, received none. Run `s2d report runs/* --out=report`."
        )
    path = evaluation.write_report(
        argv[1:],
        _OUT.value,
        _DATA_DIR.value,
        sections=paper.report_sections,
        images=_DATA.value,
        encoder=_ENCODER.value,
    )
    print(f"Wrote {path}")
