"""Where a run computes, and in what precision: devices, machines, bfloat16.

Weights, batch statistics, losses and the optimizer stay in float32 under bfloat16, and so does the
finished model.

Keras 3.15 cannot train under `MultiWorkerMirroredStrategy` (keras-team/keras#20585): before the
first step it reduces batches that cannot be reduced, and after each step it reduces scalars over an
axis that they do not have. `adapt` replaces the two methods of one model. A test says when plain
Keras can do it and `adapt` can go.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import pathlib
from collections.abc import Iterator

import s2d_tf._backend  # noqa: F401

# isort: split
import keras
import tensorflow as tf

from s2d_tf.errors import UserError

STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker")
PRECISIONS = ("float32", "bfloat16", "auto")
SAVE, STOP = 1, 1000
"""Votes on what to do after a step; they are summed over at most 999 workers."""


def make(name: str = "auto") -> tf.distribute.Strategy:
    """A `tf.distribute` strategy by name.

    "mirrored" takes all GPUs of the machine, or all logical CPU devices if it has none;
    "multi_worker" takes those of all machines that `TF_CONFIG` names. "auto" chooses
    "multi_worker" if `TF_CONFIG` names more than one worker, "mirrored" if there is more than one
    GPU, and "one_device" otherwise.
    """
    UserError.unless(
        name in STRATEGIES,
        f"strategy: expected one of {STRATEGIES}, received {name!r}.",
    )
    workers = _count_workers() if name in ("auto", "multi_worker") else 0
    UserError.unless(
        name != "multi_worker" or workers,
        "TF_CONFIG: expected workers in the environment of each, for the strategy "
        "multi_worker, received none. See docs/reproduce.md.",
    )
    if name == "multi_worker" or workers > 1:
        return _only(tf.distribute.MultiWorkerMirroredStrategy)
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one_device" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.get_strategy()
    devices = gpus or tf.config.list_logical_devices("CPU")
    return _only(tf.distribute.MirroredStrategy, tuple(device.name for device in devices))


def _count_workers():
    """How many workers `TF_CONFIG` names."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        cluster = json.loads(text or "{}").get("cluster", {})
    except (ValueError, AttributeError):
        raise UserError(
            'TF_CONFIG: expected JSON such as {"cluster": {"worker": ["host:port", ...]}, "task": '
            f'{{"type": "worker", "index": 0}}}}, received {text!r}. See docs/reproduce.md.'
        ) from None
    return sum(len(cluster.get(kind, ())) for kind in ("chief", "worker"))


@functools.cache
def _only(kind, *arguments):
    """One strategy for the whole process, however many members it trains.

    A process joins its cluster once; and TensorFlow tells reductions apart by numbers that every
    strategy counts from the start, so that a second one in the same process can fail at reductions
    of another shape than the first one's.
    """
    return kind(*arguments)


def set_determinism(wanted: bool | None, strategy: tf.distribute.Strategy) -> None:
    """Turns on operations that give the same bits every time, by default on one CPU device.

    It holds for the rest of the process. Keras then leaves XLA off.
    """
    if wanted is None:
        one = strategy.num_replicas_in_sync == 1
        wanted = one and not tf.config.list_logical_devices("GPU")
    if wanted:
        tf.config.experimental.enable_op_determinism()


def choose_precision(wanted: str) -> str:
    """Which of float32 and bfloat16 to use: "auto" takes bfloat16 if the processor has it.

    Raises:
        UserError: the name is unknown, or the processor has no instructions for bfloat16 (some
            kernels would then end the process).
    """
    UserError.unless(
        wanted in PRECISIONS,
        f"precision: expected one of {PRECISIONS}, received {wanted!r}.",
    )
    half = wanted != "float32" and multiplies_bfloat16()
    UserError.unless(
        half or wanted != "bfloat16",
        "precision: expected a processor with AMX or AVX512-BF16, or a GPU of compute "
        "capability 8.0, for bfloat16, received one without. Use precision float32.",
    )
    return "bfloat16" if half else "float32"


def multiplies_bfloat16() -> bool:
    """Whether the devices that would train have instructions for bfloat16."""
    gpus = tf.config.list_physical_devices("GPU")
    if gpus:
        details = [tf.config.experimental.get_device_details(gpu) for gpu in gpus]
        return all(d.get("compute_capability", (0, 0)) >= (8, 0) for d in details)
    try:
        text = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:  # not Linux
        return False
    flags = next((line for line in text.splitlines() if line.startswith("flags")), "")
    return bool({"amx_bf16", "avx512_bf16"} & set(flags.split()))


@contextlib.contextmanager
def scope(strategy: tf.distribute.Strategy, precision: str) -> Iterator[None]:
    """Layers that are created within it belong to the strategy and compute in that precision."""
    before = keras.config.dtype_policy()
    if precision == "bfloat16":
        keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        with strategy.scope():
            yield
    finally:
        keras.config.set_dtype_policy(before)


class Alone:
    """One process, which has nobody to agree with."""

    is_chief = True

    def agree(self, vote: int) -> int:
        return vote

    def barrier(self) -> None:
        """Waits for nobody."""

    def check_same(self, step: int) -> None:
        """Nobody else can be at another step."""

    def adapt(self, model: keras.Model) -> None:
        """Keras trains on one process as it is."""


class Team(Alone):
    """Workers in lock step: all learn in the same step that one of them wants to save or stop.

    The votes travel with the training step, so that no further round trip is needed. Agreement is
    needed because reading a metric is a collective operation too, which one worker cannot do alone.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        resolver = strategy.cluster_resolver
        if resolver is not None:  # None for the replicas of one process
            leader = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
            self.is_chief = (resolver.task_type, resolver.task_id) == (leader, 0)
        self._vote = tf.Variable(0, dtype=tf.int32, trainable=False, name="vote")
        self._counted: tf.Tensor | int = 0

    def agree(self, vote: int) -> int:
        """What the workers had voted before the last step; `vote` counts in the next one."""
        decision, self._counted = int(self._counted), 0
        self._vote.assign(0 if decision else vote)
        return decision

    def barrier(self) -> None:
        """Waits until all workers are here."""
        self._mean(0.0)

    def check_same(self, step: int) -> None:
        """Rejects workers that restored different checkpoints."""
        UserError.unless(
            self._mean(step) == step,
            "--workdir: expected one directory that all workers share, received workers at "
            f"different steps (this one: {step}). Pass the same directory to all.",
        )

    def _mean(self, value):
        @tf.function
        def mean():
            values = self.strategy.run(lambda: tf.constant(value, tf.float64))
            return self.strategy.reduce("MEAN", values, axis=None)

        return float(mean())

    def adapt(self, model: keras.Model) -> None:
        """Lets `model.fit` train under the team's strategy; counts the votes with each step."""
        strategy = self.strategy

        def build_symbolically(iterator=None, data_batch=None):
            for _, _, batches in iterator or ():
                data_batch = tf.nest.map_structure(
                    lambda value: strategy.experimental_local_results(value)[0], next(batches)
                )
                break
            with strategy.scope():
                model._symbolic_build(data_batch=data_batch)

        @tf.function(reduce_retracing=True)
        def step(iterator):
            logs = strategy.run(model.train_step, args=(next(iterator),))
            logs = {name: strategy.reduce("MEAN", value, axis=None) for name, value in logs.items()}
            votes = strategy.run(lambda: tf.identity(self._vote))
            return logs, strategy.reduce("SUM", votes, axis=None)

        def train_function(iterator):
            logs, self._counted = step(iterator)
            return logs

        def make_train_function(force=False):
            model.train_function = train_function

        model._maybe_symbolic_build = build_symbolically
        model.make_train_function = make_train_function


@functools.cache
def team(strategy: tf.distribute.Strategy) -> Alone:
    """Who computes: this process alone, or a `Team` of workers that have to agree."""
    several = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return Team(strategy) if several else Alone()
