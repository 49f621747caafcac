"""Several machines: what Keras' `fit` needs under `MultiWorkerMirroredStrategy`, and agreement.

Keras 3.15 cannot train under this strategy (keras-team/keras#20585): before the first step it
reduces batches that cannot be reduced, and after each step it reduces scalars over an axis that
they do not have. `adapt` gives one model replacements of the two methods. When the test of this
module says that plain Keras can do it, `adapt` can go.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from s2d_tf.errors import UserError

from .preemption import Preempted

if TYPE_CHECKING:
    import keras

SAVE, STOP = 1, 1000
"""Votes on what to do after a step; they are summed over at most 999 workers."""


class WorkerLostError(UserError):
    """Another worker of the job died, so that this one cannot go on; all can be started again.

    `train` raises it. `exit_code` is the one with which a scheduler starts a job again.
    """

    exit_code = Preempted.exit_code


class Alone:
    """The agreement of one process with itself."""

    is_chief = True

    def agree(self, vote: int) -> int:
        return vote

    def barrier(self) -> None:
        pass

    def check_same(self, step: int) -> None:
        pass


class Team:
    """Workers in lock step: all learn in the same step that one of them wants to save or stop.

    The votes travel with the training step, so that no further round trip is needed. Agreement is
    needed because to read a metric is a collective operation too, which one worker cannot do alone.
    """

    def __init__(self, strategy: tf.distribute.Strategy) -> None:
        self.strategy = strategy
        resolver = strategy.cluster_resolver
        leader = "chief" if "chief" in resolver.cluster_spec().jobs else "worker"
        self.is_chief = (resolver.task_type, resolver.task_id) == (leader, 0)
        self._vote = tf.Variable(0, dtype=tf.int32, trainable=False, name="vote")
        self.counted = 0

    def count(self) -> tf.Tensor:
        """Adds up the votes of all workers; part of the training step."""
        votes = self.strategy.run(lambda: tf.identity(self._vote))
        return self.strategy.reduce("SUM", votes, axis=None)

    def agree(self, vote: int) -> int:
        """What the workers had voted before the last step; `vote` counts in the next one."""
        decision, self.counted = int(self.counted), 0
        self._vote.assign(0 if decision else vote)
        return decision

    def barrier(self) -> None:
        """Waits until all workers are here."""
        self._mean(0.0)

    def check_same(self, step: int) -> None:
        """Rejects workers that restored different checkpoints."""
        if self._mean(step) != step:
            raise ValueError(
                "--workdir: expected one directory that all workers share, received others on "
                f"some: they do not continue at the same step (here: {step}). Pass the same "
                "directory to all."
            )

    def _mean(self, value):
        @tf.function
        def mean():
            values = self.strategy.run(lambda: tf.constant(value, tf.float64))
            return self.strategy.reduce("MEAN", values, axis=None)

        return float(mean())


def adapt(model: keras.Model, team: Team) -> None:
    """Lets `model.fit` train under the team's strategy; collects the votes with each step."""
    strategy = team.strategy

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
        return logs, team.count()

    def train_function(iterator):
        logs, votes = step(iterator)
        team.counted = votes
        return logs

    def make_train_function(force=False):
        model.train_function = train_function

    model._maybe_symbolic_build = build_symbolically
    model.make_train_function = make_train_function


def cluster() -> dict[str, Any]:
    """The cluster that `TF_CONFIG` describes; an empty dict without one."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        return json.loads(text or "{}").get("cluster", {})
    except (ValueError, AttributeError):
        raise ValueError(
            'TF_CONFIG: expected JSON such as {"cluster": {"worker": ["host:port", ...]}, "task": '
            f'{{"type": "worker", "index": 0}}}}, received {text!r}. See docs/scaling.md.'
        ) from None
