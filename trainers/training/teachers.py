"""What a run takes from other runs: weights to start from, and teachers to learn from."""

from __future__ import annotations

import contextlib
import hashlib
import pathlib
import shlex

import numpy as np
import tensorflow as tf
from absl import logging

from s2d_tf import files, models, zoo
from s2d_tf._types import PathLike
from s2d_tf.zoo import networks, weights
from s2d_tf.zoo.entries import ENTRY
from s2d_tf.zoo.runs import RECIPE, TEACHER_LOGITS, Run, RunError, is_run

from . import run_setup


def start(network: models.Classifier, run: Run, directory: PathLike | None = None) -> None:
    """Gives a network the weights that its recipe starts from, if it starts from any."""
    wanted = run.recipe.start
    if wanted is None:
        return
    source = find(run, wanted.method, directory)
    path = source.weights(wanted.at)
    RunError.unless(
        path.is_file(),
        f"{path}: expected the weights after {wanted.at:.0%} of the epochs of "
        f"{source.recipe.name}, received none. Restore the file, or train another run and pass "
        "its directory as --start.",
    )
    model = networks.build_network(source.recipe, source.seed)
    weights.load(model, path)
    network.backbone.set_weights(model.backbone.get_weights())
    network.head.set_weights(model.head.get_weights())
    logging.info("started from %s", path)


def attach(
    network: models.Student, run: Run, images: np.ndarray, directory: PathLike | None = None
) -> np.ndarray | None:
    """Connects a student with its teachers, in the directory as for `find`.

    Returns:
        Without augmentation the teachers' logits `[n, members, classes]`, computed once and kept on
        disk; with augmentation `None`, and the teachers run inside each training step.
    """
    source = find(run, run.recipe.teachers or "", directory)
    if run.recipe.data.augmentation != "none":
        RunError.unless(
            not run.recipe.data.resolutions,
            "data.resolutions: expected none where teachers see each augmented image, received "
            f"{run.recipe.data.resolutions}. Use --set data.resolutions=[] --set "
            "data.resolution_milestones=[].",
        )
        network.learn_from(zoo.open_run(source, with_steps=False).predictor)
        return None
    path = run.directory / TEACHER_LOGITS
    origin = {
        "teachers": [files.sha256(member.weights()) for member in source.members],
        # In their order, which data.fingerprint leaves out: a row is found by its image's index.
        "images": hashlib.sha256(np.ascontiguousarray(images).data).hexdigest(),
    }
    targets = _kept(path, origin)
    if targets is not None:
        return targets
    logging.info("computing the predictions of %s once", source.directory)
    predictor = zoo.open_run(source, with_steps=False).predictor
    network.check_teacher(predictor)
    _, members = predictor.predict_members(images)
    targets = np.ascontiguousarray(members.transpose(1, 0, 2)).astype(np.float16)
    files.write_array(path, targets)
    files.write_json(path.with_suffix(".json"), origin | {"sha256": files.sha256(path)})
    return targets


def _kept(path, origin):
    """The predictions on disk if they are whole and of this origin, else `None`."""
    # Errors: there is none, or its record was not written before the run was killed, or is damaged.
    with contextlib.suppress(FileNotFoundError, ValueError):
        record = files.read_json(path.with_suffix(".json"))
        if record == origin | {"sha256": files.sha256(path)}:
            return np.load(path, allow_pickle=False)
    if path.is_file():
        logging.warning("%s is damaged, unfinished or of other teachers: computing it again", path)
    return None


def with_targets(dataset: tf.data.Dataset, targets: np.ndarray) -> tf.data.Dataset:
    """Adds each image's teacher logits to a dataset of `(images, {"labels", "index"})`."""
    table = tf.constant(targets)

    def add(images, y):
        logits = tf.cast(tf.gather(table, y["index"]), tf.float32)
        return images, {"labels": y["labels"], "teacher_logits": logits}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(2)


def find(run: Run, method: str, directory: PathLike | None = None) -> Run:
    """A finished run of another method, on the same network, dataset and split.

    The split counts because teachers that have seen the validation images spoil what a student
    without them is validated for. An ensemble also stands for its member with this run's seed.

    Args:
        run: the `Run` that needs the other.
        method: the other's method.
        directory: where it is: a run directory, or an entry's name or folder, which is unpacked to
            `teachers/` in the run directory. `None` looks there, and then beside the run directory
            for folders with the other recipe's or its ensemble's name.
    """
    recipe = run.recipe.sibling(method)
    if directory and not is_run(directory):
        named = str(directory) in zoo.names(pretrained=True)
        if named or (pathlib.Path(directory) / ENTRY).is_file():
            directory = unpack(directory, run.directory / "teachers").directory
    received = []
    for folder in [pathlib.Path(directory)] if directory else _nearby(run, recipe):
        found, what = _look(run, recipe, folder)
        if found is not None:
            return found
        if directory or folder.is_dir():
            received.append(f"{folder}: {what}")
    raise RunError(
        f"{run.recipe.name}: expected a finished run of {recipe.name} on the split {run.split}, "
        f"received {'; '.join(received) or 'none'}. `{_command(run, recipe)}` makes one where it "
        "is found."
    )


def _look(run, recipe, folder):
    """The run in a folder, or `None` if it is not usable; and a description of what was found."""
    if not is_run(folder):
        return None, f"no {folder / RECIPE}"
    found = Run.open(folder)
    if found.recipe.draws == "ensemble" and found.recipe.member == recipe.method:
        index = run.seed - found.seed
        index = index if 0 <= index < found.recipe.num_members else 0
        return _look(run, recipe, found.member_directory(index))
    what = f"a run of {found.recipe.name} on the split {found.split}"
    if not _fits(found, run, recipe):
        return None, what
    return (found, what) if found.finished else (None, f"{what} that is not finished")


def _fits(found, run, recipe):
    wanted = recipe.name, run.recipe.own_data, run.split
    return (found.recipe.name, found.recipe.own_data, found.split) == wanted


def _nearby(run, recipe):
    own = run.directory.absolute()
    ensembles = [recipe.sibling(name) for name in ("ensemble", "s2d_ensemble")]
    names = [recipe.name, *(e.name for e in ensembles if e.member == recipe.method)]
    return [own / "teachers", *(own.parent / name for name in names)]


def _command(run, recipe):
    """What makes, or continues, the other run in a folder that is looked at."""
    inside, beside, *_ = _nearby(run, recipe)
    taken = is_run(beside) and not _fits(Run.open(beside), run, recipe)
    workdir = shlex.quote(str(inside if taken else beside))
    split = "" if run.split == "train" else f" --split={run.split}"
    return f"s2d train {recipe.train_arguments} --workdir={workdir}{split}"


def unpack(where: PathLike, directory: PathLike) -> Run:
    """Writes the recipe, seeds and weights of a zoo entry as the run it was published from.

    A directory that already holds that run is left as it is.

    Args:
        where: an entry's name or folder.
        directory: the run directory; an ensemble's members go into folders inside it.

    Raises:
        RunError: the directory holds another run.
    """
    opened = zoo.open_model(where)
    run = run_setup.create(directory, opened.recipe, opened.seeds[0], opened.split)
    if run.finished:
        return run
    parts = [run]
    if run.member_directories:
        pairs = zip(run.member_directories, opened.seeds, strict=True)
        parts = [
            run_setup.create(d, run.recipe.member_recipe, seed, run.split) for d, seed in pairs
        ]
    for part, network in zip(parts, opened.predictor.networks, strict=True):
        weights.save(network, part.weights())
    return run
