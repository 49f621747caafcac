"""Training a recipe: the one procedure behind every method."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import errno
import functools
import pathlib
import sys
import time
from typing import Any

import s2d_tf._backend  # noqa: F401
from s2d_tf._types import PathLike

# isort: split
import keras
import numpy as np
import tensorflow as tf
from absl import logging

from s2d_tf import data, files, zoo
from s2d_tf.errors import UserError
from s2d_tf.zoo import networks, recipes, runs, weights
from s2d_tf.zoo.runs import Run, RunError, snapshot_epoch

from . import callbacks, checkpoints, run_setup, schedules, strategies, teachers

_NOT_WRITABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENOENT}


def train(
    recipe: recipes.Recipe,
    directory: PathLike,
    seed: int = 0,
    settings: run_setup.Settings | None = None,
    member: int | None = None,
) -> Run:
    """Trains a recipe to its end in a run directory, going on where an earlier call stopped.

    SIGTERM and Ctrl-C stop it after the step under way, saved; SIGTERM raises `Preempted`.

    Args:
        recipe: a `recipes.Recipe`.
        directory: the run directory. Several workers share it, and the chief writes to it.
        seed: fixes initial weights, data order and noise; member `i` of an ensemble has `seed + i`.
        settings: `Settings`.
        member: train only this member of an ensemble.

    Returns:
        The finished `Run`.

    Raises:
        RunError: the directory is another run's, in use, cannot be written to, or holds a finished
            run whose weights are damaged.
        Preempted: it was stopped and saved; the same call continues it.

    Example:

    >>> recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    >>> recipe = training.override(recipe, ["data.batch_size=128"], epochs=1)
    >>> run = training.train(recipe, "trained", settings=training.Settings(verbose=0))
    >>> run.finished
    True
    """
    settings = settings or run_setup.Settings()
    members = range(recipe.num_members if recipe.draws == "ensemble" else 0)
    expected = f"a member from 0 to {members[-1]}" if members else "no member: not an ensemble"
    UserError.unless(
        member is None or member in members,
        f"member: expected {expected} ({recipe.name}), received {member!r}. Correct or drop "
        "--member.",
    )
    strategy = strategies.make(settings.strategy)  # before TensorFlow computes anything
    team = strategies.team(strategy)
    place = settings.data and str(pathlib.Path(settings.data).expanduser().absolute())
    with _writable(directory):
        make = run_setup.create if team.is_chief else Run
        run = make(pathlib.Path(directory), recipe, seed, settings.split, place)
    settings = dataclasses.replace(settings, data=run.data)  # for the members of an ensemble
    if members:
        for index in members if member is None else [member]:
            logging.info("member %d of %d", index + 1, recipe.num_members)
            train(recipe.member_recipe, run.member_directory(index), seed + index, settings)
    elif run.finished:
        _check_finished(run)
    else:
        with contextlib.ExitStack() as stack:
            if team.is_chief:
                with _writable(directory):
                    stack.enter_context(run_setup.lock(run))
            stack.enter_context(callbacks.explained(run.directory))
            stop = stack.enter_context(callbacks.StopRequest())
            _train_network(run, settings, strategy, team, stop)
    return run


@contextlib.contextmanager
def _writable(directory):
    """Turns the errors of a folder that cannot be written to into one that says so."""
    try:
        yield
    except OSError as error:
        if error.errno not in _NOT_WRITABLE:
            raise
        raise RunError(
            f"--workdir: expected a folder that can be written to, received {str(directory)!r} "
            f"({error.strerror}). Choose another one, or change its permissions."
        ) from None


def _check_finished(run):
    """Rejects a finished run whose weights are no longer those that training wrote."""
    try:
        zoo.open_run(run, with_steps=False)
    except weights.WeightsError as error:
        raise RunError(
            f"{run.weights()}: expected the weights that training wrote, received damaged ones. "
            "Remove the file and run the same command again: it continues from the last "
            "checkpoint and writes the file again."
        ) from error


def _train_network(run, settings, strategy, team, stop):
    recipe, began = run.recipe, time.monotonic()
    epochs, batch_size = recipe.training.epochs, recipe.data.batch_size
    precision = strategies.choose_precision(settings.precision)
    strategies.set_determinism(settings.deterministic, strategy)
    UserError.unless(
        batch_size % strategy.num_replicas_in_sync == 0,
        f"batch_size: expected a global batch that {strategy.num_replicas_in_sync} replicas "
        f"can share, received {batch_size}. Choose a multiple, or fewer devices.",
    )
    if team.is_chief:
        files.sweep(run.directory)
    images, labels = recipe.load_arrays(run.split, settings.data_dir, run.data)
    steps = data.steps_per_epoch(len(images), batch_size)

    # The network and all else that a checkpoint holds.
    keras.utils.set_random_seed(run.seed)
    moments = None
    with strategies.scope(strategy, precision):
        network = networks.build_network(
            recipe,
            run.seed,
            settings.synchronized_batch_norm,
            free_size=bool(recipe.data.resolutions),
        )
        # XLA cannot compile the step of several replicas.
        jit = "auto" if strategy.num_replicas_in_sync == 1 else False
        network.compile(schedules.optimizer(recipe.training, steps), jit_compile=jit)
        network.optimizer.build(network.trainable_variables)
        state = [*network.variables, *network.optimizer.variables]
        if recipe.draws == "swag":
            moments = callbacks.WeightMoments(network.trainable_variables)
            state += moments.variables
    conditions = {
        "run": run.fingerprint,
        "steps_per_epoch": steps,
        "synchronized_batch_norm": settings.synchronized_batch_norm,
        "precision": precision,
    }
    held = _restore(run, state, steps, conditions)
    history = held["history"]
    team.check_same(held["step"])

    # What comes from other runs.
    if not held["step"]:
        network.adapt(images)
        teachers.start(network, run, settings.start or settings.teachers)
    targets = None
    # The chief first, which makes the file that the others read.
    for turn_of_chief in (True, False) if recipe.teachers else ():
        if team.is_chief is turn_of_chief:
            targets = teachers.attach(network, run, images, settings.teachers)
        team.barrier()

    def facts():
        return {
            **conditions,
            "history": history,
            "seconds": held["seconds"] + time.monotonic() - began,
        }

    dataset = functools.partial(make_dataset, recipe, run.seed, images, labels, targets)
    team.adapt(network)
    called = _at_epoch_ends(run, network, history) if team.is_chief else []
    called += [moments] if moments else []
    called.append(
        callbacks.Checkpoint(
            run.directory / runs.CHECKPOINTS, state, facts, held, steps, settings, stop, team
        )
    )
    verbose = (1 if sys.stdout.isatty() else 2) if settings.verbose is None else settings.verbose
    verbose = verbose if team.is_chief else 0
    called += [callbacks.Progress(epochs, steps)] if verbose else []
    with stop.deferred():
        _fit(network, dataset, held, steps, epochs, called, verbose)

    values = [variable.numpy() for variable in network.variables]
    if team.is_chief:
        # What follows is for one device, in float32.
        if strategy.num_replicas_in_sync > 1 or precision != "float32":
            network = networks.build_network(recipe, run.seed)
            for variable, value in zip(network.variables, values, strict=True):
                variable.assign(value)
        _finish(run, network, moments, images, history, facts())
    team.barrier()


def _restore(run, state, steps, conditions):
    """What the newest checkpoint says, or the beginning."""
    beginning: dict[str, Any] = {
        "epoch": 0,
        "step_in_epoch": 0,
        "history": [],
        "seconds": 0.0,
        "step": 0,
    }
    held = checkpoints.restore(run.directory / runs.CHECKPOINTS, state) or beginning
    for name, value in conditions.items():
        if held.get(name, value) != value:
            what = "of another run (recipe, seed or split)" if name == "run" else held[name]
            raise checkpoints.CheckpointError(
                f"{run.directory}: expected checkpoints with {name} {value}, received {what}. "
                "Continue with the same data and flags."
            )
    if held["step"]:
        place = f"epoch {held['epoch'] + 1}, step {held['step_in_epoch'] + 1} of {steps}"
        logging.info("continuing %s at %s", run.directory, place)
    return held


def _at_epoch_ends(run, network, history):
    """What the chief does at the end of each epoch, before it is saved."""
    kept = {snapshot_epoch(run.recipe, at): at for at in recipes.snapshots(run.recipe)}

    def keep_weights(epoch, logs):
        """After the epochs that other recipes start from."""
        if epoch + 1 in kept:
            weights.save(network, run.weights(kept[epoch + 1]))

    return [
        callbacks.RunLog(run.directory / runs.LOG, history),
        keras.callbacks.LambdaCallback(on_epoch_end=keep_weights),
        keras.callbacks.TensorBoard(run.directory / runs.TENSORBOARD, write_graph=False),
    ]


def _fit(network, dataset, held, steps, epochs, called, verbose):
    """Keras' `fit` from any step on: first what is left of a begun epoch, then whole ones.

    Args:
        dataset: function from the number of steps done to the batches after them.
        called: the callbacks.
    """
    begun, done = held["epoch"], held["step_in_epoch"]
    whole = begun + bool(done)
    if done:
        with network.distribute_strategy.scope():
            # Else Keras makes the metrics in the first step, too late to hand them their sums.
            network._symbolic_build(data_batch=dataset(begun * steps + done).element_spec)
    for first, end, skipped in ((begun, whole, done), (whole, epochs, 0)):
        if first < end:
            network.fit(
                dataset(first * steps + skipped),
                epochs=end,
                initial_epoch=first,
                steps_per_epoch=steps - skipped,
                callbacks=called,
                verbose=verbose,
            )


def _finish(run, network, moments, images, history, facts):
    """Writes the summary and, as the very last thing, the final weights."""
    recipe, trained = run.recipe, network
    if moments:
        trained = networks.build_predictor(recipe, [network])
        trained.set_moments(*([v.numpy() for v in m] for m in (moments.mean, moments.square)))
        batches = tf.data.Dataset.from_tensor_slices(images).batch(recipe.data.batch_size)
        trained.recompute_statistics(batches)
    files.write_json(
        run.directory / runs.SUMMARY,
        {
            "name": recipe.name,
            "seed": run.seed,
            "finished": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "training_seconds": round(facts["seconds"], 1),
            "precision": facts["precision"],
            "parameters": int(sum(np.prod(w.shape) for w in network.trainable_variables)),
            "last_epoch": history[-1],
        },
    )
    weights.save(trained, run.weights())


def make_dataset(
    recipe: recipes.Recipe,
    seed: int,
    images: np.ndarray,
    labels: np.ndarray,
    targets: np.ndarray | None = None,
    start_step: int = 0,
) -> tf.data.Dataset:
    """The batches of a run from a step on; with the teachers' logits where `targets` has them."""
    dataset = data.train_pipeline(
        images,
        labels,
        batch_size=recipe.data.batch_size,
        seed=seed,
        epochs=recipe.training.epochs,
        start_step=start_step,
        augmentation=None if recipe.data.augmentation == "none" else recipe.data.augmentation,
        padding=recipe.data.padding,
        mean=recipe.data.mean,
        max_shift=recipe.data.max_shift,
        resolutions=recipe.data.resolutions,
        resolution_milestones=recipe.data.resolution_milestones,
        num_heads=recipe.heads,
        with_index=targets is not None,
    )
    return dataset if targets is None else teachers.with_targets(dataset, targets)
