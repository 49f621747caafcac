"""Where a run computes."""

from __future__ import annotations

import functools

import tensorflow as tf

from . import multi_worker

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")


def make(name: str = "auto") -> tf.distribute.Strategy:
    """A `tf.distribute` strategy by name.

    "mirrored" takes all GPUs of the machine, or all logical CPU devices where there is none;
    "multi_worker" takes those of all machines that `TF_CONFIG` names. "auto" chooses
    "multi_worker" where `TF_CONFIG` names more than one worker, "mirrored" where there is more than
    one GPU, and "one_device" otherwise.
    """
    if name not in STRATEGIES:
        raise ValueError(
            f"strategy: expected one of {STRATEGIES}, received {name!r}. Choose one of these."
        )
    cluster = multi_worker.cluster() if name in ("auto", "multi_worker") else {}
    workers = sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))
    if name == "multi_worker" and not workers:
        raise ValueError(
            "TF_CONFIG: expected workers in the environment of each, for the strategy "
            "multi_worker, received none. See docs/scaling.md."
        )
    if name == "multi_worker" or workers > 1:
        return _only(tf.distribute.MultiWorkerMirroredStrategy)
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one_device" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.get_strategy()
    devices = gpus or tf.config.list_logical_devices("CPU")
    return _only(tf.distribute.MirroredStrategy, tuple(device.name for device in devices))


@functools.cache
def _only(kind, *arguments):
    """One for the whole process, however many members it trains.

    A process joins its cluster once; and TensorFlow tells reductions apart by numbers that every
    strategy counts from the start, so that a second one in the same process can fail at reductions
    of another shape than the first one's.
    """
    return kind(*arguments)


@functools.cache
def team(strategy: tf.distribute.Strategy) -> multi_worker.Alone | multi_worker.Team:
    """Who computes: this process alone, or workers that have to agree."""
    if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return multi_worker.Team(strategy)
    return multi_worker.Alone()


def set_determinism(
    wanted: bool | None, strategy: tf.distribute.Strategy, jit_compile: bool | None = None
) -> bool:
    """Turns on operations that give the same bits every time; returns whether it did.

    By default on one CPU device. It holds for the rest of the process. Keras then leaves XLA off,
    so XLA is not used by default.
    """
    if wanted and jit_compile:
        raise ValueError(
            "deterministic: expected it without XLA, which it turns off, received both. "
            "Choose one of the two."
        )
    if wanted is None:
        one = strategy.num_replicas_in_sync == 1
        wanted = one and not jit_compile and not tf.config.list_logical_devices("GPU")
    if wanted:
        tf.config.experimental.enable_op_determinism()
    return bool(wanted)


def check_batch_size(batch_size: int, strategy: tf.distribute.Strategy) -> None:
    """Rejects a global batch that the replicas cannot share equally."""
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"batch_size: expected a global batch that {replicas} replicas can share, "
            f"received {batch_size}. Choose a batch size that {replicas} divides, or fewer "
            "devices."
        )


def choose_jit(wanted: bool | None, strategy: tf.distribute.Strategy) -> bool | str:
    """Whether XLA compiles the training step: what is wanted, else what Keras chooses.

    Keras leaves XLA off on CPU, where oneDNN's kernels are faster, and on several replicas, where
    it is not safe.
    """
    several = strategy.num_replicas_in_sync > 1
    if wanted and several:
        raise ValueError(
            "jit_compile: expected None or False on several replicas, received True. XLA "
            "cannot compile their step: leave --jit out."
        )
    if wanted is not None:
        return wanted
    return False if several else "auto"
