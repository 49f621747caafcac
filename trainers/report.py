"""Writes one web page with tables, figures and the paper's claims, from your runs.

usage: s2d report RUNS... [--out=DIR] [--data_dir=DIR] [--data=FOLDER] [--encoder=FOLDER]

    s2d report runs/* --out=report

The page, report.html, is self-contained and needs no network. RUNS are evaluated run directories
(`s2d evaluate`); figures are drawn from the predictions stored there.
"""

from absl import flags

from s2d_tf import _flags

_OUT = flags.DEFINE_string("out", "s2d_report", "Folder to write to.")
_DATA_DIR = _flags.data_dir()
_DATA = _flags.moved_data()
_ENCODER = _flags.encoder()


def main(argv):
    from s2d_tf import evaluation, paper

    if len(argv) < 2:
        raise ValueError("Expected run directories, e.g. `s2d report runs/* --out=report`.")
    path = evaluation.write_report(
        argv[1:],
        _OUT.value,
        _DATA_DIR.value,
        sections=paper.report_sections,
        images=_DATA.value,
        encoder=_ENCODER.value,
    )
    print(f"Wrote {path}")
