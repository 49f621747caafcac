"""A run before it is trained: settings, the recipe of a command line, and the run directory."""

from __future__ import annotations

import dataclasses
import difflib
import json
import pathlib
from collections.abc import Iterable
from contextlib import AbstractContextManager

import numpy as np
from absl import logging

from s2d_tf import data, files
from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes, runs
from s2d_tf.zoo.recipes import SECTIONS, OwnData, Recipe, RecipeError
from s2d_tf.zoo.runs import Run, RunError, is_run


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where to train, how, and from what: all that is not in the recipe.

    Attributes:
        data_dir: TFDS folder; `None` takes `TFDS_DATA_DIR` or the default one.
        data: folder of the images of a recipe for own data.
        split: "train", or "train_without_validation" for tuning.
        strategy: see `strategies.make`.
        precision: "float32", "bfloat16" or "auto", see `strategies.choose_precision`.
        deterministic: operations that give the same bits every time; `None` chooses, see
            `strategies.set_determinism`.
        synchronized_batch_norm: batch statistics over all replicas.
        checkpoint_seconds, checkpoint_steps: how often to save within an epoch, besides at its end;
            `None` for not by that measure.
        teachers, start: run directories, for methods that need them; `None` looks beside.
        verbose: Keras' verbosity; `None` shows bars on a terminal, else a line an epoch.

    Example:

    >>> settings = training.Settings(verbose=0, checkpoint_steps=100)
    """

    data_dir: str | None = None
    data: str | None = None
    split: str = "train"
    strategy: str = "auto"
    precision: str = "float32"
    deterministic: bool | None = None
    synchronized_batch_norm: bool = False
    checkpoint_seconds: float | None = 120.0
    checkpoint_steps: int | None = None
    teachers: str | None = None
    start: str | None = None
    verbose: int | None = None


def resolve(name: str, path: PathLike | None = None, image_size: int | None = None) -> Recipe:
    """The recipe of a name, or of `architecture.method` on a folder of images, which it reads.

    Args:
        name: `architecture.method.dataset`; without the dataset if there is a folder.
        path: the folder; see `data.open_folder`.
        image_size: height and width of its images; `None` chooses.
    """
    if path is None:
        return recipes.resolve(name)
    recipes.check_network(name)
    folder = data.open_folder(path, image_size)
    counts = {split: len(paths) for split, paths in folder.files.items()}
    logging.info("reading %s as %s: %s", folder.path, folder.image_shape, counts)
    for split in ("test", "validation"):
        folder.load_arrays(split)  # A damaged image is an error now and not after the training.
    images, labels = folder.load_arrays("train")
    mean, stddev = statistics(images)
    own_data = OwnData(
        image_shape=folder.image_shape,
        class_names=folder.class_names,
        mean=mean,
        stddev=stddev,
        images=len(images),
        fingerprint=data.fingerprint(images, labels),
    )
    return recipes.resolve_own(name, folder.name, own_data)


def statistics(images: np.ndarray) -> tuple[tuple, tuple]:
    """Mean and standard deviation of each channel of raw pixels, to one decimal.

    A channel with less than one gray level of variation has a deviation of 1.
    """
    mean = images.mean(axis=(0, 1, 2))
    squares = np.einsum("nhwc,nhwc->c", images, images, dtype=np.float64)  # without a copy
    square = squares / (images.size / images.shape[-1])
    stddev = np.sqrt(np.maximum(square - mean**2, 1.0))
    return tuple(mean.round(1).tolist()), tuple(stddev.round(1).tolist())


def override(
    recipe: Recipe,
    assignments: Iterable[str] = (),
    epochs: int | None = None,
    members: int | None = None,
) -> Recipe:
    """A recipe with some values changed.

    A student may have another loss, other teachers and another start:
    `["objective=normal_kl_divergence", "teachers=ensemble", "start=individual"]`, where
    `start=none` is from scratch, and `start=s2d@0.5` from half of the epochs of `s2d`.

    Args:
        recipe: the recipe, which stays as it is.
        assignments: texts such as "model.noise_stddev=0.2", as `--set` takes them.
        epochs: the number of epochs.
        members: the number of members of an ensemble.

    Raises:
        RecipeError: a key is unknown, or a value is of another type or out of its range.

    Example:

    >>> recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    >>> training.override(recipe, ["model.temperature=2.0"], epochs=5).model.temperature
    2.0
    """
    changes = recipe.to_dict()
    if epochs is not None:
        changes["training"]["epochs"] = epochs
    if members is not None:
        RecipeError.unless(
            recipe.draws != "point",
            f"--members: expected none for {recipe.name}, which has one member, received "
            f"{members}. Leave it out.",
        )
        changes["num_members"] = members
    for assignment in assignments:
        key, _, text = assignment.partition("=")
        section, _, name = key.partition(".")
        if key in ("objective", "teachers", "start") and recipe.objective:
            changes[key] = _start(text) if key == "start" else text
            continue
        if section not in SECTIONS or name not in changes[section]:
            known = [f"{s}.{n}" for s in SECTIONS for n in changes[s]]
            # A name without its section is as good as a typo.
            typed = [k for k in known if k.endswith(f".{key}")]
            near = typed or difflib.get_close_matches(key, known, n=3, cutoff=0.7)
            keys = f"a key such as {' or '.join(near)}" if near else f"one of {', '.join(known)}"
            raise RecipeError(f"--set: expected {keys}, received {assignment!r}. Correct the key.")
        try:
            changes[section][name] = json.loads(text)
        except json.JSONDecodeError:
            changes[section][name] = text
    return Recipe.from_dict(changes)


def _start(text):
    """A start as a recipe has it, from `METHOD`, `METHOD@FRACTION` or `none`."""
    method, _, at = text.partition("@")
    try:
        return None if text == "none" else {"method": method, "at": float(at or 1)}
    except ValueError:
        raise RecipeError(
            f"start: expected METHOD, METHOD@FRACTION or none, received {text!r}."
            " Write it as s2d@0.5."
        ) from None


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
    others = ", other numbers" if held.recipe.name == recipe.name else ""
    RunError.unless(
        held == run or _grows_to(held, run),
        f"{directory}: expected a new folder or the same run, received another run "
        f"({held.recipe.name}, seed {held.seed}, split {held.split}{others}). Choose another "
        "--workdir; nothing was changed.",
    )
    return held if held == run and data in (None, held.data) else run.write()


def lock(run: Run) -> AbstractContextManager[None]:
    """Holds a run's directory for this process; a second one is rejected."""
    return files.locked(run.directory / runs.LOCK, RunError)


def summary(run: Run) -> str:
    """What was trained, how long it took and where it is, for a person."""
    lines = []
    trained = [d for d in run.member_directories if (d / runs.FINAL).is_file()]
    for directory in trained or [run.directory]:
        facts = files.read_json(directory / runs.SUMMARY)
        logs = ", ".join(f"{k} {v:.4g}" for k, v in facts["last_epoch"].items())
        lines.append(
            f"{facts['name']}, seed {facts['seed']}: {facts['parameters']:,} parameters, "
            f"{facts['training_seconds'] / 60:.1f} minutes; {logs}\n  {directory / runs.FINAL}"
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
    if run.recipe.draws != "ensemble" or members <= run.recipe.num_members:
        return False
    return dataclasses.replace(run, recipe=run.recipe.replace(num_members=members)) == other
