"""A published entry as a run directory, from which other runs can start or learn."""

from __future__ import annotations

import pathlib

from s2d_tf import zoo
from s2d_tf._types import PathLike
from s2d_tf.zoo import weights
from s2d_tf.zoo.layout import ENTRY
from s2d_tf.zoo.runs import Run


def is_entry(where: PathLike) -> bool:
    """Whether a path or a name is that of an entry with weights."""
    return str(where) in zoo.names(pretrained=True) or (pathlib.Path(where) / ENTRY).is_file()


def unpack(where: PathLike, directory: PathLike) -> Run:
    """Writes the recipe, seeds and weights of an entry as the run it was published from.

    A directory that already holds that run is left as it is.

    Args:
        where: an entry's name or folder.
        directory: the run directory; an ensemble's members go into folders inside it.

    Raises:
        RunError: the directory holds another run.
    """
    opened = zoo.open_model(where)
    run = Run.create(directory, opened.recipe, opened.seeds[0], opened.split)
    if run.finished:
        return run
    parts = [run]
    if run.member_directories:
        member = run.recipe.member_recipe
        pairs = zip(run.member_directories, opened.seeds, strict=True)
        parts = [Run.create(folder, member, seed, run.split) for folder, seed in pairs]
    for part, network in zip(parts, opened.predictor.networks, strict=True):
        weights.save(network, part.weights())
    return run
