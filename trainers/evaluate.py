"""Computes all metrics of a run or a zoo entry.

usage: s2d evaluate RUN_OR_NAME [--data_dir=DIR] [--data=FOLDER] [--ood=NAME_OR_FOLDER ...]
                                [--limit=N] [--detectors=all|NAME,...] [--bootstrap=N]
                                [--as=METHOD] [--members=N]

    s2d evaluate runs/s2d_0 --data_dir=~/tensorflow_datasets
    s2d evaluate runs/s2d_0 --as=s2d_mc          # the same network with Monte Carlo dropout
    s2d evaluate runs/ensemble_20 --members=10   # its first ten members
    s2d evaluate wrn_10_2_s2.s2d.cifar100        # or the folder or URL of an entry
    s2d evaluate wrn_10_2_s2.s2d.cifar100 --ood=svhn_cropped --limit=1000   # a quick look
    s2d evaluate runs/flowers --ood=weeds        # a run on a folder; detect the images of another
    s2d evaluate runs/s2d_0 --detectors=all      # also post-hoc detectors: svhn_cropped/auroc/knn
    s2d evaluate answers.parquet ood.parquet     # tables from `s2d predict` on labeled inputs

Prints one flat JSON dict: `cifar100/nll`, `svhn_cropped/auroc/knowledge`, ..., seed, data
fingerprints, versions and times. A run also stores it as metrics.json, with the predictions, so
that evaluating it again needs no forward pass. An ensemble's members are evaluated too. Missing
datasets are skipped with a message.

A run on a folder of images is evaluated on its test split. Pass --data if the folder has moved. For
any other model, --data is a folder with some of its classes, which replaces its own dataset; then
nothing is stored. --ood takes the place of the usual out-of-distribution datasets (--ood= of all);
a run remembers it for reports and comparisons. With --limit, a run's metrics are only printed. See
docs/evaluation.md.
"""

import json
from typing import Any

from absl import flags

from . import _flags

_DATA_DIR = _flags.data_dir()
_DATA = flags.DEFINE_string("data", None, "Folder of images, one subfolder per class.")
_OOD = flags.DEFINE_multi_string(
    "ood", None, "Out-of-distribution dataset to evaluate on: a name or a folder of images"
)
_LIMIT = flags.DEFINE_integer(
    "limit", None, "Only N examples of each dataset, evenly spread (default: all).", lower_bound=1
)
_BATCH_SIZE = _flags.batch_size()
_BOOTSTRAP = flags.DEFINE_integer(
    "bootstrap",
    0,
    "Number of resamples (e.g. 10000) for 95% intervals of a run's metrics, written to its "
    "intervals.json; 0: none.",
    lower_bound=0,
)
_AS = flags.DEFINE_string("as", None, "Evaluate the run's weights as this method: mc or s2d_mc.")
_MEMBERS = flags.DEFINE_integer(
    "members", None, "Number of members to draw, or to use of an ensemble.", lower_bound=1
)
_DETECTORS = flags.DEFINE_string(
    "detectors",
    "",
    "Post-hoc detectors to fit on the training images and evaluate: all, or names such as "
    "knn,energy.",
)


def main(argv: list[str]) -> None:
    from s2d_tf import evaluation, zoo

    from . import studies

    if len(argv) > 1 and argv[1].endswith((".parquet", ".csv")):
        from . import scoring

        print(json.dumps(scoring.evaluate_table(argv[1], argv[2:]), indent=2))
        return
    (where,) = _flags.arguments(
        argv, "RUN_OR_NAME", "one run directory or name", "s2d evaluate runs/s2d_0", 1, 1
    )
    options: dict[str, Any] = {
        "data_dir": _DATA_DIR.value,
        "batch_size": _BATCH_SIZE.value,
        "folder": _DATA.value,
        "ood": None if _OOD.value is None else [each for each in _OOD.value if each],
        "limit": _LIMIT.value,
        "detectors": _DETECTORS.value,
        "log": _flags.log,
        "watch": _flags.WATCH,
    }
    run = zoo.Run.open(where) if zoo.is_run(where) else None
    if run and not _LIMIT.value and (_DATA.value is None or run.recipe.own_data):
        viewed = studies.views.view(run, _AS.value, _MEMBERS.value)
        if viewed != run:
            viewed.write()
        found = evaluation.evaluate_run(viewed.directory, bootstrap=_BOOTSTRAP.value, **options)
    elif _AS.value or _MEMBERS.value or _BOOTSTRAP.value:
        raise ValueError(
            "--as, --members and --bootstrap: expected a run directory, on all data of the run, "
            f"received {where}. Leave these flags out."
        )
    else:
        found, _ = evaluation.evaluate_opened(zoo.open_model(where), **options)
    print(json.dumps(found, indent=2))
