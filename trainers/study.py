"""Asks a question of many models and writes rows, tables and plots.

usage: s2d study QUESTION [MODEL...] --out=DIR [--data_dir=DIR] [flags of the question]

    s2d study detectors runs/plain wrn_10_2_s2.s2d.cifar100 --out=results/detectors
    s2d study shift runs/plain runs/s2d runs/ensemble --out=results/shift --images=1000
    s2d study shift --out=results/shift        # only regenerate the page

QUESTION is one of
  detectors  Which score detects out-of-distribution images best? Uncertainties and post-hoc
             detectors on near and far datasets, and abstention. (--detectors)
  distance   What does knowledge uncertainty gain from the distance to the training data? (--half)
  shift      What happens on corrupted images? Accuracy, calibration and uncertainty by severity,
             and each model's difference from the first, with 95% intervals. (--images, --dataset,
             --bootstrap) The images are generated on first use (2.8 GB; with --images, only those).

MODEL is a run directory, or the name, folder or URL of a zoo entry. DIR/QUESTION.json holds tidy
rows (model, seed, dataset, metric, score, value, low, high) of all models asked so far, from which
DIR/QUESTION.md and plots are made. Rerun the command to resume. See docs/evaluation.md.
"""

import importlib
from typing import Any

from absl import flags

from s2d_tf.errors import UserError

from . import _flags

QUESTIONS = ("detectors", "distance", "shift")

_OUT = flags.DEFINE_string("out", None, "Folder to write to.", required=True)
_DETECTORS = flags.DEFINE_string("detectors", "all", "all, or names such as knn,energy.")
_IMAGES = flags.DEFINE_integer("images", None, "Use only the first N test images.", lower_bound=2)
_DATASET = flags.DEFINE_string(
    "dataset",
    "cifar100_c_generated",
    "Dataset of corrupted images; cifar100_c is the published archive.",
)
_BOOTSTRAP = flags.DEFINE_integer(
    "bootstrap", 1_000, "Number of resamples for the intervals.", lower_bound=1
)
_HALF = flags.DEFINE_enum("half", "second", ("first", "second"), "Half of each set to score.")
_DATA_DIR = _flags.data_dir()
_BATCH_SIZE = _flags.batch_size()


def main(argv: list[str]) -> None:
    UserError.unless(
        len(argv) > 1 and argv[1] in QUESTIONS,
        f"QUESTION: expected one of {', '.join(QUESTIONS)}, received {argv[1:2]!r}. Run `s2d "
        "study detectors runs/* --out=results/detectors`.",
    )
    from .studies import results

    question = importlib.import_module(f"{results.__package__}.{argv[1]}").QUESTION
    options: dict[str, dict[str, Any]] = {
        "detectors": {"detectors": _DETECTORS.value},
        "distance": {"half": _HALF.value},
        "shift": {"images": _IMAGES.value, "dataset": _DATASET.value},
    }
    shared = {"data_dir": _DATA_DIR.value, "batch_size": _BATCH_SIZE.value}
    for path in results.run(
        question, argv[2:], _OUT.value, _BOOTSTRAP.value, _flags.log, **shared, **options[argv[1]]
    ):
        print(f"Wrote {path}")
