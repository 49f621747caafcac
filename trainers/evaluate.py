"""Computes all metrics of a trained run or of a zoo entry.

usage: s2d evaluate RUN_OR_NAME [--data_dir=DIR] [--data=FOLDER] [--ood=NAME_OR_FOLDER ...]
                                [--detectors=all|NAME,...] [--bootstrap=N] [--as=METHOD]
                                [--members=N] [--encoder=FOLDER]

    s2d evaluate runs/s2d_0 --data_dir=~/tensorflow_datasets
    s2d evaluate runs/s2d_0 --as=s2d_mc          # the same network with Monte Carlo dropout
    s2d evaluate runs/ensemble_20 --members=10   # its first ten members
    s2d evaluate wrn_10_2_s2.s2d.cifar100        # or the folder or address of an entry
    s2d evaluate runs/flowers --ood=weeds        # trained on a folder; other images to detect
    s2d evaluate runs/s2d_0 --detectors=all      # also post-hoc detectors: svhn_cropped/auroc/knn
    s2d evaluate minilm_l6_512.s2d.clinc150 --encoder=FOLDER     # a head, on texts
    s2d evaluate answers.parquet ood.parquet     # what `s2d predict` wrote for labeled inputs

Prints one flat JSON dict, `cifar100/nll`, `svhn_cropped/auroc/knowledge`, ..., with seed, data
fingerprints, versions and timings. For a run it is also written there as metrics.json, and
predictions are kept beside it, so that a second evaluation needs no forward pass; the members of an
ensemble are evaluated with it. Datasets that are not on this machine are skipped with a line.

A run on a folder of images is evaluated on its test split, which is found where it was trained or
with --data. For any other model --data is a folder of images with some of its classes, on which it
is evaluated in place of its own dataset; then nothing is written. Out-of-distribution data of --ood
is remembered by a run for reports and comparisons.
"""

import json
import sys

from absl import flags

from s2d_tf import _flags

_DATA_DIR = _flags.data_dir()
_DATA = flags.DEFINE_string("data", None, "Folder of images, one subfolder per class.")
_OOD = flags.DEFINE_multi_string(
    "ood", [], "More out-of-distribution data: a dataset's name or a folder of images."
)
_BATCH_SIZE = _flags.batch_size()
_BOOTSTRAP = flags.DEFINE_integer(
    "bootstrap",
    0,
    "Resamples (e.g. 10000) for 95% intervals of a run's metrics, written to its intervals.json; "
    "0: none.",
    lower_bound=0,
)
_AS = flags.DEFINE_string("as", None, "Evaluate the run's weights as this method: mc or s2d_mc.")
_MEMBERS = flags.DEFINE_integer(
    "members", None, "How many members to draw, or to take of an ensemble.", lower_bound=1
)
_DETECTORS = flags.DEFINE_string(
    "detectors",
    "",
    "Post-hoc detectors to fit on the training images and to evaluate: all, or names such as "
    "knn,energy. Features are kept beside the predictions.",
)
_ENCODER = _flags.encoder()
_ENGINE = _flags.engine()


def main(argv: list[str]) -> None:
    from s2d_tf import engines, evaluation, prediction, storage

    engines.use(_ENGINE.value)
    if len(argv) > 1 and prediction.is_predictions(argv[1]):
        print(json.dumps(prediction.evaluate_predictions(argv[1], argv[2:]), indent=2))
        return
    if len(argv) != 2:
        raise ValueError(
            f"RUN_OR_NAME: expected one run directory or name, received {argv[1:]!r}. Run `s2d "
            "evaluate runs/s2d_0`."
        )

    def log(line):
        print(line, file=sys.stderr, flush=True)

    data = {
        "folder": _DATA.value,
        "ood": _OOD.value,
        "detectors": _DETECTORS.value,
        "encoder": _ENCODER.value,
    }
    run = storage.Run.open(argv[1]) if storage.is_run(argv[1]) else None
    if run and (_DATA.value is None or run.recipe.own_data):
        found = evaluation.evaluate_run(
            argv[1],
            _DATA_DIR.value,
            _BATCH_SIZE.value,
            _BOOTSTRAP.value,
            log,
            _AS.value,
            _MEMBERS.value,
            **data,
        )
    elif _AS.value or _MEMBERS.value or _BOOTSTRAP.value:
        raise ValueError(
            "--as, --members and --bootstrap: expected a run directory, on the data of the run, "
            f"received {argv[1]}. Leave these flags out."
        )
    else:
        found = evaluation.evaluate_entry(argv[1], _DATA_DIR.value, _BATCH_SIZE.value, log, **data)
    print(json.dumps(found, indent=2))
