"""Evaluates models on corrupted images: accuracy, calibration and uncertainty against severity.

usage: s2d shift [MODEL...] [--out=DIR] [--images=N] [--dataset=NAME] [--data_dir=DIR]

    s2d shift --out=results/shift --images=1000                 # a quick look at the published pair
    s2d shift runs/plain runs/s2d runs/ensemble --out=results/shift
    s2d shift exported/mine --out=results/shift                 # what `s2d export` wrote

MODEL is a run directory, the name, folder or address of a zoo entry, or an exported model; the
others are compared with the first, with 95% intervals. For each of 18 corruptions at 5 severities:
accuracy, NLL, ECE, mean uncertainty, and the AUROC of wrong answers by each uncertainty; then
means, and whether uncertainty rises as accuracy falls. A run keeps its numbers as shift.json, and
`s2d report` draws the curves. DIR gets the numbers of all models, shift.md and figures. The images
are generated on first use (2.8 GB; with --images only those). A stopped command continues.
"""

import sys

from absl import flags

from s2d_tf._choices import ENGINES

_OUT = flags.DEFINE_string("out", None, "Folder to write to; not needed where all are runs.")
_IMAGES = flags.DEFINE_integer(
    "images", None, "Only the first N test images, for a quick look.", lower_bound=2
)
_DATASET = flags.DEFINE_string(
    "dataset",
    "cifar100_c_generated",
    "A dataset with conditions; cifar100_c is the published archive, if you have it.",
)
_DATA_DIR = flags.DEFINE_string(
    "data_dir", None, "Folder of the datasets; else TFDS_DATA_DIR, else ~/tensorflow_datasets."
)
_BATCH_SIZE = flags.DEFINE_integer("batch_size", 256, "Images per forward pass.", lower_bound=1)
_BOOTSTRAP = flags.DEFINE_integer(
    "bootstrap", 1_000, "Resamples behind the intervals of differences.", lower_bound=1
)
_ENGINE = flags.DEFINE_enum(
    "engine",
    "auto",
    ENGINES,
    "What computes predictions; auto takes what was measured to be the fastest on this machine.",
)


def main(argv: list[str]) -> None:
    from s2d_tf import engines, evaluation

    engines.use(_ENGINE.value)

    def log(line):
        print(line, file=sys.stderr, flush=True)

    written = evaluation.shift_study.study(
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
