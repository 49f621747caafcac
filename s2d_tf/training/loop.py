"""Training a recipe: the one procedure behind every method."""

import dataclasses
import datetime
import time

import keras
import numpy as np
from absl import logging

from s2d_tf import data
from s2d_tf.training import (
    build,
    callbacks,
    checkpoints,
    files,
    recipes,
    schedules,
    strategies,
    teachers,
)
from s2d_tf.training.runs import Run, snapshot_epoch


@dataclasses.dataclass(frozen=True)
class Settings:
    """Where and how to train; none of it changes what is learnt.

    Attributes:
        data_dir: TFDS folder; `None` takes `TFDS_DATA_DIR` or the default one.
        split: "train", or "train_without_validation" for tuning.
        strategy: see `strategies.make`.
        jit_compile: compile the step with XLA; `None` chooses.
        synchronized_batch_norm: batch statistics over all replicas.
        teachers, start: run directories, for methods that need them; `None` looks beside.
        verbose: Keras' verbosity; `None` shows bars on a terminal and lines in a file.
    """

    data_dir: str | None = None
    split: str = "train"
    strategy: str = "auto"
    jit_compile: bool | None = None
    synchronized_batch_norm: bool = False
    teachers: str | None = None
    start: str | None = None
    verbose: int | None = None


def train(recipe, directory, seed=0, settings=None, member=None):
    """Trains a recipe to its end in a run directory, going on where an earlier call stopped.

    Args:
        recipe: a `recipes.Recipe`.
        directory: the run directory.
        seed: fixes initial weights, data order and noise; member `i` of an ensemble has `seed + i`.
        settings: `Settings`.
        member: train only this member of an ensemble.

    Returns:
        The finished `Run`.
    """
    settings = settings or Settings()
    run = Run.create(directory, recipe, seed, settings.split)
    if recipe.draws == "ensemble":
        indices = range(recipe.num_members) if member is None else [member]
        for index in indices:
            logging.info("member %d of %d", index + 1, recipe.num_members)
            train(recipe.member_recipe, run.member_directory(index), seed + index, settings)
        return run
    with run.lock():
        if not run.finished:
            _train_network(run, settings)
    return run


def _train_network(run, settings):
    recipe, began = run.recipe, time.monotonic()
    strategy = strategies.make(settings.strategy)
    strategies.check_batch_size(recipe.data.batch_size, strategy)
    images, labels = data.load_arrays(recipe.source_dataset, run.split, settings.data_dir)
    steps = data.steps_per_epoch(len(images), recipe.data.batch_size)
    keras.utils.set_random_seed(run.seed)
    with strategy.scope():
        network = build.build_network(recipe, run.seed, settings.synchronized_batch_norm)
        network.compile(
            schedules.optimizer(recipe.training, steps),
            jit_compile=strategies.choose_jit(settings.jit_compile, strategy),
        )
        network.optimizer.build(network.trainable_variables)
        moments = callbacks.WeightMoments(network.trainable_variables)
    state = [*network.variables, *network.optimizer.variables]
    if recipe.draws == "swag":
        state += moments.variables
    held = checkpoints.restore(run.directory / "checkpoints", state)
    if held is None:
        teachers.start(network, run, settings.start or settings.teachers)
        held = {"epoch": 0, "history": [], "seconds": 0.0}
    history = held["history"]
    targets = teachers.attach(network, run, settings, images) if recipe.teachers else None

    def facts():
        return {"history": history, "seconds": held["seconds"] + time.monotonic() - began}

    done = [
        callbacks.RunLog(run.directory / "log.csv", history),
        callbacks.Snapshot(_snapshots(run)),
        keras.callbacks.TensorBoard(run.directory / "tensorboard", write_graph=False),
    ]
    if recipe.draws == "swag":
        done.append(moments)
    done.append(callbacks.Checkpoint(run.directory / "checkpoints", lambda: state, facts))
    if held["epoch"] < recipe.training.epochs:
        dataset = _dataset(recipe, run.seed, images, labels, targets, held["epoch"] * steps)
        network.fit(
            dataset,
            epochs=recipe.training.epochs,
            initial_epoch=held["epoch"],
            steps_per_epoch=steps,
            callbacks=done,
            verbose=strategies.verbosity(settings.verbose),
        )
    predictor = build.build_predictor(recipe, [network])
    if recipe.draws == "swag":
        predictor.set_moments(*([v.numpy() for v in m] for m in (moments.mean, moments.square)))
        batches = data.eval_pipeline(images, labels, recipe.data.batch_size)
        predictor.recompute_statistics(batches.map(lambda images, _: images))
    seconds = facts()["seconds"]
    files.write_json(
        run.directory / "summary.json",
        {
            "name": recipe.name,
            "seed": run.seed,
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "training_seconds": round(seconds, 1),
            "parameters": count_trainable(network),
            "last_epoch": history[-1],
        },
    )
    callbacks.save_weights(predictor if recipe.draws == "swag" else network, run.weights())


def _dataset(recipe, seed, images, labels, targets, start_step):
    augmentation = recipe.data.augmentation
    dataset = data.train_pipeline(
        images,
        labels,
        batch_size=recipe.data.batch_size,
        seed=seed,
        epochs=recipe.training.epochs,
        start_step=start_step,
        augmentation=None if augmentation == "none" else augmentation,
        padding=None if augmentation == "none" else recipe.data.padding,
        mean=recipe.data.mean,
        num_heads=recipe.heads,
        with_index=targets is not None,
    )
    return dataset if targets is None else teachers.with_targets(dataset, targets)


def _snapshots(run):
    """Where to keep the weights that other methods start from: epoch -> path."""
    starts = [recipes.resolve(name).start for name in recipes.names()]
    return {
        snapshot_epoch(run.recipe, start.at): run.weights(start.at)
        for start in starts
        if start is not None and start.method == run.recipe.method and start.at < 1
    }


def count_trainable(model):
    """Number of trainable parameters."""
    return int(sum(np.prod(w.shape) for w in model.trainable_variables))
