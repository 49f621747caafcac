"""Checkpoints of a run: a folder each, written beside, checked by sha256, moved into place."""

import pathlib
import re
import shutil

import numpy as np
from absl import logging

from s2d_tf.training import files

_NAME = re.compile(r"step_(\d{9})")


class CheckpointError(ValueError):
    """A checkpoint is damaged or belongs to another model."""


def save(directory, step, variables, facts, keep=2):
    """Writes a checkpoint and removes all but the newest `keep`.

    Args:
        directory: folder of the run's checkpoints.
        step: number of training steps done.
        variables: Keras variables, in an order that the same program reproduces.
        facts: JSON values to keep with them (epoch, history, ...).
    """
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    folder = directory / f"step_{step:09d}"
    beside = directory / f".partial_{step:09d}"
    shutil.rmtree(beside, ignore_errors=True)
    beside.mkdir()
    arrays = beside / "arrays.npz"
    with open(arrays, "wb") as file:
        np.savez(file, **{_key(i, v): v.numpy() for i, v in enumerate(variables)})
    manifest = {"step": step, "sha256": {arrays.name: files.sha256(arrays)}, "facts": facts}
    files.write_json(beside / "manifest.json", manifest)
    files.flush(arrays)
    files.flush(beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)
    files.flush(directory)
    for old in found(directory)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def found(directory):
    """Checkpoint folders, oldest first."""
    folders = pathlib.Path(directory).glob("step_*")
    return sorted(folder for folder in folders if _NAME.fullmatch(folder.name))


def restore(directory, variables):
    """Sets the variables from the newest checkpoint that is whole.

    Returns:
        The facts that were saved with it and `step`, or `None` where there is no checkpoint. A
        damaged one is named in the log, and the one before it is used.
    """
    for folder in reversed(found(directory)):
        try:
            manifest, arrays = _read(folder, variables)
        except (OSError, ValueError, KeyError) as error:
            logging.warning(
                "checkpoint %s cannot be used, trying the one before: %s", folder, error
            )
            continue
        for variable, array in zip(variables, arrays, strict=True):
            variable.assign(array)
        return {**manifest["facts"], "step": manifest["step"]}
    return None


def _read(folder, variables):
    manifest = files.read_json(folder / "manifest.json")
    path = folder / "arrays.npz"
    if files.sha256(path) != manifest["sha256"][path.name]:
        raise CheckpointError(f"{path} does not match its sha256")
    with np.load(path, allow_pickle=False) as stored:
        keys = [_key(i, v) for i, v in enumerate(variables)]
        if sorted(stored.files) != sorted(keys):
            raise CheckpointError(f"{path} holds the variables of another model")
        arrays = [stored[key] for key in keys]
    for key, variable, array in zip(keys, variables, arrays, strict=True):
        if tuple(variable.shape) != array.shape:
            raise CheckpointError(
                f"{path}, {key}: expected {variable.shape}, received {array.shape}"
            )
    return manifest, arrays


def _key(index, variable):
    return f"{index:05d}/{variable.path}"
