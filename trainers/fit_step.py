"""Fits a post-hoc step on a finished run or a zoo entry and stores it there.

usage: s2d fit-step RUN_OR_ENTRY STEP [--set OPTION=VALUE ...] [--split=SPLIT] [--data_dir=DIR]

    s2d fit-step runs/s2d_0 knn --set k=50
    s2d fit-step runs/s2d_0 temperature_scaling                 # on the validation split
    s2d fit-step runs/s2d_0 conformal_sets --set coverage=0.9 --set method=aps
    s2d fit-step runs/s2d_0 selective_classifier --set score=knn --set max_risk=0.1

Steps stack in the order in which you fit them. `zoo.load`, `s2d evaluate`, `s2d export` and
`s2d publish` then use the model with its steps, and exported models also return ood_score,
prediction_set and abstain. To start over, remove the run's folder `steps`. An entry is changed in
place; to keep the original, copy its folder first. See docs/detect.md for all steps.
"""

import json
import pathlib

from absl import flags

from . import _flags

_SET = flags.DEFINE_multi_string("set", [], "Option of the step, e.g. --set k=50")
_SPLIT = flags.DEFINE_string(
    "split",
    None,
    "Split to fit on (default: the network's training data; for calibration, sets and abstention, "
    "the validation split if the network was not trained on it).",
)
_DATA_DIR = _flags.data_dir()
_BATCH_SIZE = _flags.batch_size()


def main(argv: list[str]) -> None:
    where, name = _flags.arguments(
        argv, "RUN_OR_NAME STEP", "two arguments", "s2d fit-step runs/s2d_0 knn", 2, 2
    )
    from s2d_tf import posthoc, zoo

    from . import publishing

    step_class = posthoc.step_class(name)
    options = dict(map(_option, _SET.value))
    try:
        step = step_class(**options)
    except TypeError as error:
        raise ValueError(
            f"--set: expected options of {step_class.__name__}, received {_SET.value} ({error}). "
            "Correct the name."
        ) from None
    path = publishing.fit_step(
        pathlib.Path(where) if zoo.is_run(where) else where,
        step,
        _DATA_DIR.value,
        _SPLIT.value,
        _BATCH_SIZE.value,
        _flags.log,
    )
    print(f"Wrote {path}")


def _option(text):
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
