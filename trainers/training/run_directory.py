"""A run directory that training writes: made once, held by one process, summed up at the end."""

from __future__ import annotations

import dataclasses
import pathlib
from contextlib import AbstractContextManager

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.zoo import layout
from s2d_tf.zoo.recipes import Recipe
from s2d_tf.zoo.runs import Run, RunError, is_run


def create(
    directory: PathLike, recipe: Recipe, seed: int, split: str = "train", data: str | None = None
) -> Run:
    """Makes a run directory, or opens it if it holds the same run.

    An ensemble may get more members, and the folder of own images may move.

    Raises:
        RunError: the directory holds another run.
    """
    run = Run(pathlib.Path(directory), recipe, seed, split, data)
    if not is_run(directory):
        return run.write()
    held = Run.open(directory)
    if held != run and not _grows_to(held, run):
        others = ", other numbers" if held.recipe.name == recipe.name else ""
        raise RunError(
            f"{directory}: expected a new folder or the same run, received another run "
            f"({held.recipe.name}, seed {held.seed}, split {held.split}{others}). Choose another "
            "--workdir; nothing was changed."
        )
    return held if held == run and data in (None, held.data) else run.write()


def lock(run: Run) -> AbstractContextManager[None]:
    """Holds a run's directory for this process; a second one is rejected."""
    return files.locked(run.directory / layout.LOCK, RunError)


def summary(run: Run) -> str:
    """What was trained, how long it took and where it is, for a person."""
    lines = []
    trained = [d for d in run.member_directories if (d / layout.FINAL).is_file()]
    for part in [Run.open(directory) for directory in trained] or [run]:
        facts = files.read_json(part.directory / layout.SUMMARY)
        logs = ", ".join(f"{k} {v:.4g}" for k, v in facts["last_epoch"].items())
        lines.append(
            f"{facts['name']}, seed {facts['seed']}: {facts['parameters']:,} parameters, "
            f"{facts['training_seconds'] / 60:.1f} minutes; {logs}\n"
            f"  {part.directory / layout.FINAL}"
        )
    if run.member_directories and not run.finished:
        lines.append(
            f"{len(trained)} of {run.recipe.num_members} members are trained; --member=I trains "
            "another."
        )
    return "\n".join(lines)


def _grows_to(run, other):
    """Whether another run is this ensemble with more members."""
    members = other.recipe.num_members
    grown = dataclasses.replace(run, recipe=run.recipe.replace(num_members=members))
    larger = members > run.recipe.num_members
    return run.recipe.draws == "ensemble" and larger and grown == other
