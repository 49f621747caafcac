"""Writes one web page with tables, figures and the paper's claims, from your runs.

usage: s2d report RUNS... [--out=DIR] [--data_dir=DIR] [--data=FOLDER]

    s2d report runs/* --out=report

The page, report.html, is self-contained and needs no network. RUNS are evaluated run directories
(`s2d evaluate`); figures are drawn from the predictions stored there.
"""

from absl import flags

_OUT = flags.DEFINE_string("out", "s2d_report", "Folder to write to.")
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of the datasets; else TFDS_DATA_DIR, else ~/tensorflow_datasets."
)
_DATA = flags.DEFINE_string(
    "data", None, "Where the images of runs on a folder are now, if they have moved."
)


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
    )
    print(f"Wrote {path}")
