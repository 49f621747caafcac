"""Compares post-hoc detectors and uncertainties of trained models on all OOD datasets.

usage: s2d detectors RUN_OR_NAME... --out=DIR [--detectors=all|NAME,...] [--data_dir=DIR]

    s2d detectors wrn_10_2_s2.individual.cifar100 wrn_10_2_s2.s2d.cifar100 --out=results/detectors

Fits the detectors on the training images. Writes the metrics of each model to
DIR/NAME/metrics.json, and tables of all models in DIR to DIR/detectors.md: detection on every
available dataset and abstention, by every score. `s2d evaluate --detectors` adds the same metrics
to a run. See docs/posthoc.md.
"""

import sys

from absl import flags

from . import _flags

_OUT = flags.DEFINE_string("out", None, "Folder to write to.", required=True)
_DETECTORS = flags.DEFINE_string("detectors", "all", "all, or names such as knn,energy.")
_DATA_DIR = _flags.data_dir()
_BATCH_SIZE = _flags.batch_size()


def main(argv: list[str]) -> None:
    from .studies import detector_study

    if len(argv) < 2:
        raise ValueError(
            "RUN_OR_NAME: expected run directories or names, received none. Run `s2d detectors "
            "runs/* --out=results`."
        )

    def log(line):
        print(line, file=sys.stderr, flush=True)

    path = detector_study.study(
        argv[1:], _OUT.value, _DATA_DIR.value, _DETECTORS.value, _BATCH_SIZE.value, log
    )
    print(f"Wrote {path}")
