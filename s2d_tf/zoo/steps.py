"""Fitted post-hoc steps beside the weights of a run or an entry, in the order in which they stack.

A run keeps them in its folder `steps`, an entry lists them in its record. TensorFlow is imported
only where there are some.
"""

from __future__ import annotations

import hashlib
import pathlib
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.zoo.entries import MAX_STEPS, StepFile, ZooError
from s2d_tf.zoo.layout import STEPS
from s2d_tf.zoo.runs import RunError

if TYPE_CHECKING:
    from s2d_tf.models import Predictor
    from s2d_tf.posthoc import Step, StepPredictor
    from s2d_tf.zoo.sources import Source

MAX_BYTES = 2**29
"""Of all steps of one model together."""

_NAME = re.compile(r"(\d{1,2})_[A-Za-z0-9_]+\.safetensors")


def file_name(index: int, step: Step) -> str:
    """The file of the step at a place in the stack, such as `0_knn.safetensors`."""
    return f"{index}_{step.name or type(step).__name__}.safetensors"


def of_run(directory: PathLike) -> list[pathlib.Path]:
    """The files of a run's steps, in order."""
    folder = pathlib.Path(directory) / STEPS
    found = [path for path in folder.glob("*") if not path.name.startswith(files.PARTIAL)]
    place = {path: int(m[1]) if (m := _NAME.fullmatch(path.name)) else -1 for path in found}
    ordered = sorted(found, key=lambda path: place[path])
    if [place[path] for path in ordered] != list(range(len(found))) or len(found) > MAX_STEPS:
        raise RunError(
            f"{folder}: expected files 0_NAME.safetensors, 1_NAME.safetensors, ..., received "
            f"{[path.name for path in ordered][:5]}. Remove the folder and fit the steps again."
        )
    return ordered


def apply(predictor: Predictor, source: Source, items: Iterable[StepFile | str]) -> Predictor:
    """A predictor with the fitted steps in the files of a source.

    Args:
        predictor: the model on which they were fitted.
        source: where the files are.
        items: the files in order: names, or what an entry's record says of them, to be checked.
    """
    left = MAX_BYTES
    for item in items:
        from s2d_tf import posthoc

        name = item if isinstance(item, str) else item.file
        where, content = f"{source}/{name}", source.read(name, left)
        left -= len(content)
        if isinstance(item, StepFile) and hashlib.sha256(content).hexdigest() != item.sha256:
            raise ZooError(
                f"{where}: expected the sha256 {item.sha256}, received another. Get the entry "
                "again."
            )
        predictor = posthoc.parse(content, predictor, where)
        held = repr(predictor.step), fitted_on(predictor)
        if isinstance(item, StepFile) and held != (item.step, item.fitted_on):
            raise ZooError(
                f"{where}: expected {(item.step, item.fitted_on)!r:.200}, received {held!r:.200}. "
                "Get the entry again."
            )
    return predictor


def fitted_on(predictor: StepPredictor) -> str:
    """`dataset/split` of the last step's fit; empty where nothing was fitted."""
    facts = predictor.provenance
    return f"{facts['data']}/{facts['split']}" if {"data", "split"} <= facts.keys() else ""


def summaries(predictor: Predictor) -> list[dict]:
    """All steps of a predictor with their provenance, as JSON values."""
    from s2d_tf.posthoc import chain

    return [
        {**own.provenance, "step": repr(own.step), "fitted_on": fitted_on(own)}
        for own in chain(predictor)
    ]
