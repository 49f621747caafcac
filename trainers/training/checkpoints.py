"""Checkpoints of a run: a folder each, written beside, checked by sha256, moved into place."""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import re
import shutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from absl import logging

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError

if TYPE_CHECKING:
    import keras

FORMAT = 3
ARRAYS, MANIFEST = "arrays.safetensors", "manifest.json"

_NAME = re.compile(r"step_(\d{9})")
_METRICS = "metrics/"
# What reading a manifest raises where it is damaged; CheckpointError is a ValueError.
_DAMAGED = (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError)


class CheckpointError(UserError):
    """A checkpoint is damaged or belongs to another model."""


def collect(
    variables: Sequence[keras.Variable], metrics: Sequence[keras.Variable] = ()
) -> dict[str, np.ndarray]:
    """The values of variables by the names that a checkpoint gives them, as copies."""
    arrays = {_key(i, v): np.asarray(v.numpy()) for i, v in enumerate(variables)}
    return arrays | {f"{_METRICS}{i:05d}": np.asarray(v.numpy()) for i, v in enumerate(metrics)}


def write(
    directory: PathLike,
    step: int,
    arrays: dict[str, np.ndarray],
    facts: dict[str, Any],
    keep: int = 3,
) -> None:
    """Writes a checkpoint and removes all but the newest `keep`.

    Args:
        directory: folder of the run's checkpoints.
        step: number of training steps done.
        arrays: what `collect` returned.
        facts: JSON values to keep with them (epoch, history, ...).
        keep: how many checkpoints to keep.
    """
    directory = pathlib.Path(directory)
    folder = directory / f"step_{step:09d}"
    with contextlib.suppress(*_DAMAGED):
        _manifest(folder)
        return  # the same step of the same run: the same bits
    with files.folder_written_beside(folder) as beside:
        packed = files.pack_arrays(arrays)
        digest = hashlib.sha256(packed).hexdigest()
        (beside / ARRAYS).write_bytes(packed)
        manifest = {"format": FORMAT, "step": step, "sha256": {ARRAYS: digest}, "facts": facts}
        files.write_json(beside / MANIFEST, manifest | {"checksum": _checksum(manifest)})
    for old in [*found(directory)[:-keep], *directory.glob(f"{files.PARTIAL}*")]:
        shutil.rmtree(old, ignore_errors=True)


def found(directory: PathLike) -> list[pathlib.Path]:
    """Checkpoint folders, oldest first."""
    return sorted(
        folder for folder in pathlib.Path(directory).glob("step_*") if _NAME.fullmatch(folder.name)
    )


def newest(directory: PathLike) -> tuple[pathlib.Path, dict[str, Any]] | None:
    """Folder and manifest (`facts` and `step`) of the newest checkpoint that is whole.

    A damaged one is named in the log, and the one before it is used; `None` if there is no other.
    """
    for folder in reversed(found(directory)):
        try:
            return folder, _manifest(folder)
        except _DAMAGED as error:
            logging.warning("checkpoint %s is damaged, trying the one before: %s", folder, error)
    return None


def restore(directory: PathLike, variables: Sequence[keras.Variable]) -> dict[str, Any] | None:
    """Sets the variables from the newest checkpoint that is whole.

    Returns:
        The facts that were saved with it, `step`, and `metrics`, a list of arrays; `None` if there
        is no checkpoint.

    Raises:
        CheckpointError: where a checkpoint is another model's, or where all are damaged. To start
            over then would in time remove them, so a person has to decide it.
    """
    held = newest(directory)
    if held is None:
        folders = [folder.name for folder in found(directory)]
        CheckpointError.unless(
            not folders,
            f"{directory}: expected a checkpoint that is whole, received only damaged ones "
            f"({', '.join(folders)}). Remove the folder to start over.",
        )
        return None
    folder, manifest = held
    arrays, metrics = _read_arrays(folder / ARRAYS, variables)
    for variable, array in zip(variables, arrays, strict=True):
        variable.assign(array)
    return {**manifest["facts"], "step": manifest["step"], "metrics": metrics}


def _manifest(folder):
    """The manifest of a checkpoint that is what was written."""
    path, arrays = folder / MANIFEST, folder / ARRAYS
    manifest = files.read_json(path)
    CheckpointError.unless(
        manifest.pop("checksum") == _checksum(manifest) and manifest["format"] == FORMAT,
        f"{path}: expected format {FORMAT} with its checksum, received {manifest!r:.80}",
    )
    CheckpointError.unless(
        files.sha256(arrays) == manifest["sha256"][ARRAYS],
        f"{arrays}: expected content with its sha256, received changed content",
    )
    facts, step = manifest["facts"], manifest["step"]
    CheckpointError.unless(
        isinstance(facts, dict) and type(step) is int and step >= 0,
        f"{path}: expected facts and a step, received {facts!r:.80}, {step!r}",
    )
    return {"facts": facts, "step": step}


def _checksum(manifest):
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _read_arrays(path, variables):
    """The arrays of the variables and of the metrics, if they are those of this model."""
    named = {_key(i, v): v for i, v in enumerate(variables)}
    try:
        stored, _ = files.unpack_arrays(path.read_bytes())
        metrics = {key: stored.pop(key) for key in sorted(stored) if key.startswith(_METRICS)}
        files.check_arrays(stored, named)
        files.ArraysError.unless(
            all(array.dtype.kind in "biuf" for array in metrics.values()),
            f"expected numbers as metrics, received {[str(m.dtype) for m in metrics.values()]}",
        )
    except files.ArraysError as error:
        # Not damage, which the sha256 shows, unless somebody wrote that as well.
        raise CheckpointError(
            f"{path}: expected the arrays of this model, received another model's: {error}. "
            "Continue with its own model, or remove the folder to continue from the one before."
        ) from None
    return [stored[key] for key in named], list(metrics.values())


def _key(index, variable):
    """A variable's name without Keras' counters, after its place.

    Keras counts objects of a kind over the whole process (`seed_generator_7`), so the same model
    has other names when it was built after others, as the members of an ensemble are.
    """
    return re.sub(r"_\d+(?=[_/]|$)", "", f"{index:05d}/{variable.path}")
