"""Evaluates models on corrupted images: accuracy, calibration, uncertainty by severity.

usage: s2d shift [MODEL...] [--out=DIR] [--images=N] [--dataset=NAME] [--data_dir=DIR]

    s2d shift --out=results/shift --images=1000        # a quick look at the published networks
    s2d shift runs/plain runs/s2d runs/ensemble --out=results/shift
    s2d shift exported/mine --out=results/shift        # a model exported with `s2d export`

MODEL is a run directory, a zoo entry's name, folder or URL, or an exported model. The first is
compared with each of the others, with 95% intervals. For each of 18 corruptions at 5 severities,
computes accuracy, NLL, ECE, mean uncertainty, and the AUROC of wrong predictions by each
uncertainty; then means, and whether uncertainty rises as accuracy falls.

Writes the numbers of all models, shift.md and plots to DIR. A run also stores its numbers as
shift.json, for `s2d report`. The images are generated on first use (2.8 GB; with --images, only
those). Rerun the command to resume. See docs/shift.md.
"""

import sys

from absl import flags

from . import _flags

_OUT = flags.DEFINE_string("out", None, "Folder to write to; optional if all models are runs.")
_IMAGES = flags.DEFINE_integer("images", None, "Use only the first N test images.", lower_bound=2)
_DATASET = flags.DEFINE_string(
    "dataset",
    "cifar100_c_generated",
    "Dataset of corrupted images; cifar100_c is the published archive.",
)
_DATA_DIR = _flags.data_dir()
_BATCH_SIZE = _flags.batch_size()
_BOOTSTRAP = flags.DEFINE_integer(
    "bootstrap", 1_000, "Number of resamples for the intervals.", lower_bound=1
)


def main(argv: list[str]) -> None:
    from .studies import shift_study

    def log(line):
        print(line, file=sys.stderr, flush=True)

    written = shift_study.study(
        argv[1:],
        _OUT.value,
        _DATASET.value,
        _IMAGES.value,
        _DATA_DIR.value,
        _BATCH_SIZE.value,
        _BOOTSTRAP.value,
        log,
    )
    for path in written:
        print(f"Wrote {path}")
