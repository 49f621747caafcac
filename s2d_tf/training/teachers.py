"""What a run takes from other runs: weights to start from, and teachers to learn from."""

import pathlib

import numpy as np
import tensorflow as tf
from absl import logging

from s2d_tf import data
from s2d_tf.training import files
from s2d_tf.training.runs import Run, RunError


def start(network, run, directory=None):
    """Gives a network the weights that its recipe starts from, if it starts from any."""
    wanted = run.recipe.start
    if wanted is None:
        return
    source = find(run, wanted.method, directory)
    path = source.weights(wanted.at)
    if not path.is_file():
        raise RunError(f"Expected the weights {path}, which {_command(source.recipe)} writes.")
    from s2d_tf.training import build, weights

    model = build.build_network(source.recipe, source.seed)
    weights.load(model, path)
    network.backbone.set_weights(model.backbone.get_weights())
    network.head.set_weights(model.head.get_weights())
    logging.info("started from %s", path)


def attach(network, run, settings, images):
    """Connects a student with its teachers.

    Returns:
        Without augmentation the teachers' logits `[n, members, classes]`, computed once and kept on
        disk; with augmentation `None`, and the teachers run inside each training step.
    """
    source = find(run, run.recipe.teachers, settings.teachers)
    if run.recipe.data.augmentation != "none":
        network.learn_from(source.predictor())
        return None
    path = run.directory / "teacher_logits.npy"
    origin = {
        "teachers": [files.sha256(member.weights()) for member in source.members],
        "images": data.fingerprint(images, np.zeros(len(images), np.int64)),
    }
    if path.is_file() and files.read_json(path.with_suffix(".json")) == origin:
        return np.load(path, allow_pickle=False)
    logging.info("computing the predictions of %s once", source.directory)
    _, members = source.predictor().predict_members(images)
    targets = np.ascontiguousarray(members.transpose(1, 0, 2)).astype(np.float16)
    with files.written_beside(path) as temporary:
        np.save(temporary, targets)
    files.write_json(path.with_suffix(".json"), origin)
    return targets


def with_targets(dataset, targets):
    """Adds each image's teacher logits to a dataset of `(images, {"labels", "index"})`."""
    table = tf.constant(targets)

    def add(images, y):
        logits = tf.cast(tf.gather(table, y["index"]), tf.float32)
        return images, {"labels": y["labels"], "teacher_logits": logits}

    return dataset.map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(2)


def find(run, method, directory=None):
    """A finished run of another method: the given one, or one that lies near this one.

    Looked at in turn: the given folder, `teachers/` in the run directory, and folders beside it
    that have the other recipe's name; an ensemble also stands for its member with this run's seed.
    """
    recipe = run.recipe.sibling(method)
    near = [directory] if directory else []
    near += [run.directory / "teachers", run.directory.parent / recipe.name]
    near += [run.directory.parent / r.name for r in _ensembles_of(run.recipe, method)]
    for folder in near:
        folder = pathlib.Path(folder)
        if not (folder / "recipe.json").is_file():
            continue
        found = Run.open(folder)
        if found.recipe.draws == "ensemble" and recipe.draws != "ensemble":
            index = run.seed - found.seed
            folder = found.member_directory(index if 0 <= index < found.recipe.num_members else 0)
            if not (folder / "recipe.json").is_file():
                continue
            found = Run.open(folder)
        if (found.recipe.architecture, found.recipe.method) != (recipe.architecture, method):
            continue
        if found.finished:
            return found
    flag = "--teachers" if recipe.draws == "ensemble" else "--start"
    raise RunError(
        f"{run.recipe.name} needs a finished run of {recipe.name}: make it with "
        f"`{_command(recipe)}`, then pass {flag}=DIR."
    )


def _ensembles_of(recipe, method):
    for name in ("ensemble", "s2d_ensemble"):
        sibling = recipe.sibling(name)
        if sibling.member == method:
            yield sibling


def _command(recipe):
    return f"s2d train {recipe.name} --workdir=DIR"
