"""All that is random in training input: pure functions of (seed, epoch, index)."""

from __future__ import annotations

import tensorflow as tf

# Each kind of draw has a stream of its own, so that adding one never changes another.
_ORDER, _SHIFT, _MIRROR, _PAIRING, _FIRST_MIRROR = range(5)


class Draws:
    """Stateless draws by a fixed algorithm: the same on every device and in every process.

    Args:
        seed: any integer.
        num_examples: images in the dataset.
        max_shift: largest shift in pixels.
        alternating: mirror each image in every second epoch instead of at random.
    """

    def __init__(
        self, seed: int, num_examples: int, max_shift: int, alternating: bool = False
    ) -> None:
        self._seed = seed
        self._num_examples = num_examples
        self._max_shift = max_shift
        self._alternating = alternating

    def order(self, epoch: tf.Tensor) -> tf.Tensor:
        """int64 [N], the order in which an epoch visits the images."""
        return _shuffled(tf.range(self._num_examples, dtype=tf.int64), self._fold(_ORDER, epoch))

    def views(self, epoch: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Shift, int32 [N, 2], and mirror flag, bool [N], of each image in an epoch.

        The generator counts, so the draws of an image do not depend on how many follow it.
        """
        reach, count = self._max_shift, self._num_examples
        shift = _integers([count, 2], self._fold(_SHIFT, epoch), -reach, reach + 1)
        if self._alternating:
            first = _integers([count], self._fold(_FIRST_MIRROR), 0, 2)
            return shift, (first + tf.cast(epoch, tf.int32)) % 2 == 1
        return shift, _integers([count], self._fold(_MIRROR, epoch), 0, 2) == 1

    def pairing(
        self, epoch: tf.Tensor, step: tf.Tensor, size: int | tf.Tensor, num_heads: int
    ) -> tf.Tensor:
        """int32 [size, heads], which image of a batch each head sees; head 0 sees them in order."""
        positions = [tf.range(size)]
        for head in range(1, num_heads):
            positions.append(_shuffled(positions[0], self._fold(_PAIRING, epoch, step, head)))
        return tf.stack(positions, axis=-1)

    def _fold(self, stream, *values):
        seed = tf.constant([self._seed, stream], tf.int64)
        for value in values:
            value = tf.cast(value, tf.int64)
            seed = tf.random.experimental.stateless_fold_in(seed, value, alg="philox")
        return seed


def _shuffled(values, seed):
    return tf.random.experimental.stateless_shuffle(values, seed=seed, alg="philox")


def _integers(shape, seed, low, high):
    return tf.random.stateless_uniform(shape, seed, low, high, dtype=tf.int32, alg="philox")
