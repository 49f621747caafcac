"""Dropout that can also be sampled at prediction time, one mask for each ensemble member."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from s2d_tf._types import Shape
from s2d_tf.layers.randomness import fold_in_replica, next_seed

_prediction = threading.local()


@contextlib.contextmanager
def monte_carlo_member(member: int) -> Iterator[None]:
    """Within this context every `Dropout` applies the mask of ensemble member `member`.

    The mask is one draw for all images (shape `[1, ...]`), a pure function of the layer's seed and
    the member, so an answer never depends on the batch it came in. Along axes of free size, such as
    the words of a text, it is the same everywhere.

    Example:

    >>> layer, ones = layers.Dropout(0.5, seed=0), tf.ones([2, 6])
    >>> with layers.monte_carlo_member(0):
    ...     drawn = layer(ones)
    >>> bool(tf.reduce_all(drawn[0] == drawn[1]))          # one mask for all inputs
    True
    """
    previous = getattr(_prediction, "member", None)
    _prediction.member = member
    try:
        yield
    finally:
        _prediction.member = previous


@keras.saving.register_keras_serializable(package="s2d_tf")
class Dropout(keras.layers.Layer):
    """Bernoulli dropout for backbones, with Monte Carlo masks under `monte_carlo_member`.

    In training each row has a mask of its own; replicas draw apart, so a run with dropout is
    equal over numbers of replicas in distribution, not in bits.

    Args:
        rate: probability of a zero, in [0, 1).
        seed: integer; `None` draws one, and the config keeps it.

    Example:

    >>> layer = layers.Dropout(0.5, seed=0)
    >>> float(tf.reduce_sum(layer(tf.ones([1, 8]))))       # at prediction it does nothing
    8.0
    """

    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError(
                f"rate: expected a number in [0, 1), received {rate!r}. Pass 0 for no dropout."
            )
        self.rate = rate
        self.seed = random.getrandbits(31) if seed is None else seed
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        member = getattr(_prediction, "member", None)
        if self.rate == 0 or (not training and member is None):
            return inputs
        if member is None:
            seed = fold_in_replica(next_seed(self.seed_generator))
            return self._drop(inputs, tf.shape(inputs), seed)
        mask_shape = [1, *(size or 1 for size in inputs.shape[1:])]
        return self._drop(inputs, mask_shape, tf.stack([self.seed, member]))

    def _drop(self, inputs, mask_shape, seed):
        kept = tf.random.stateless_uniform(mask_shape, seed) >= self.rate
        return inputs * tf.cast(kept, inputs.dtype) * (1 / (1 - self.rate))

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return input_shape

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate, "seed": self.seed}
