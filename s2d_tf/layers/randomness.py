"""Random draws that do not depend on how many replicas share the batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import tensorflow as tf

if TYPE_CHECKING:
    import keras


def next_seed(seed_generator: keras.random.SeedGenerator) -> tf.Tensor:
    """The generator's next seed as the int32 pair that stateless operations take."""
    return tf.cast(tf.convert_to_tensor(seed_generator.next()), tf.int32)


def draw_rows(draw: Callable[[list[Any]], tf.Tensor], local_shape: list[Any]) -> tf.Tensor:
    """Draws for the global batch and returns the rows that belong to this replica.

    Every replica sees the same seed, so each draws the same global tensor and takes its own slice:
    row `i` of the global batch gets the same noise on one replica or on many.

    Args:
        draw: function of a shape that returns a random tensor; a pure function of its seed.
        local_shape: shape of this replica's part, batch first.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return draw(local_shape)
    rows = local_shape[0]
    everything = draw([rows * context.num_replicas_in_sync, *local_shape[1:]])
    first = tf.cast(context.replica_id_in_sync_group, tf.int32) * rows
    return everything[first : first + rows]


def fold_in_replica(seed: tf.Tensor) -> tf.Tensor:
    """Makes the seed this replica's own, where a global draw would cost too much memory."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
    return tf.random.experimental.stateless_fold_in(seed, replica)
