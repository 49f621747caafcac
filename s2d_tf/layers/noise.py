"""Random layers: noise that turns one feature vector into many teacher inputs, and dropout.

Draws of noise do not depend on how many replicas share the batch.
"""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from s2d_tf._types import Shape
from s2d_tf.numerics.tensor_checks import require

_prediction = threading.local()


class Noise(keras.layers.Layer):
    """Base of the regularizers: features `[..., d]` to noisy copies `[..., num_samples, d]`.

    The noise is a pure function of the seed, of how often the layer was called (the training
    step) and of the row of the global batch. It is therefore independent between rows and samples
    and the same for any number of replicas. Abstract: a subclass defines `perturb`.

    Args:
        num_samples: how many noisy copies to make of each row (the paper's M).
        seed: integer; `None` draws one.

    Example:

    >>> class Shift(layers.Noise):
    ...     def perturb(self, features, copies, width, seeds):
    ...         return features + tf.random.stateless_uniform([*copies, 1], seeds[0])
    >>> Shift(num_samples=3)(tf.zeros([4, 8])).shape
    TensorShape([4, 3, 8])
    """

    def __init__(self, num_samples: int = 5, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        require(
            num_samples >= 1,
            f"num_samples: expected at least 1 teacher pass, received {num_samples!r}. The "
            "paper has 5.",
        )
        self.num_samples = num_samples
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(features)
        copies = [shape[i] for i in range(len(features.shape) - 1)] + [self.num_samples]
        seeds = tf.random.split(_next_seed(self.seed_generator), 2)
        return self.perturb(features[..., None, :], copies, features.shape[-1], seeds)

    def perturb(
        self, features: tf.Tensor, copies: list[Any], width: int, seeds: tf.Tensor
    ) -> tf.Tensor:
        """Noisy copies of `features` `[..., 1, width]`, as many as the shape `copies` says.

        Args:
            copies: the shape of the result without its last axis, `[..., num_samples]`.
            seeds: two seeds for `tf.random.stateless_*`, `[2, 2]`.
        """
        raise NotImplementedError

    def compute_output_shape(self, input_shape: Shape) -> Shape:
        return (*input_shape[:-1], self.num_samples, input_shape[-1])

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "num_samples": self.num_samples, "seed": self.seed}


class _GaussianNoise(Noise):
    """Gaussian noise with a fixed, or for each row and sample a uniformly random, deviation."""

    def __init__(
        self,
        stddev: float | tuple[float, float] = 0.1,
        num_samples: int = 5,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_samples, seed, **kwargs)
        low, high = stddev if isinstance(stddev, (tuple, list)) else (stddev, stddev)
        require(
            0 <= low <= high,
            "stddev: expected a number of at least 0 or a pair (low, high) with 0 <= low <= "
            f"high, received {stddev!r}. The paper has 0.1.",
        )
        self.stddev = tuple(stddev) if isinstance(stddev, (tuple, list)) else stddev
        self._low, self._high = float(low), float(high)

    def noise(self, copies: list[Any], width: int, seeds: tf.Tensor, dtype: Any) -> tf.Tensor:
        """Zero-mean noise `[*copies, width]`; the deviation is shared by a row's features."""
        noise = _draw_rows(tf.random.stateless_normal, [*copies, width], seeds[0])
        if self._low == self._high:
            return tf.cast(self._low * noise, dtype)
        limits = self._low, self._high
        stddev = _draw_rows(tf.random.stateless_uniform, [*copies, 1], seeds[1], *limits)
        return tf.cast(stddev * noise, dtype)

    def get_config(self):
        return {**super().get_config(), "stddev": self.stddev}


@keras.saving.register_keras_serializable(package="s2d_tf")
class MultiplicativeGaussianNoise(_GaussianNoise):
    """`x * (1 + s * eps)`: Gaussian dropout, the regularizer that the paper uses.

    Args:
        stddev: the deviation `s`; a pair `(low, high)` draws it uniformly for each row and sample.
        num_samples: how many noisy copies to make of each row (the paper's M).
        seed: integer; `None` draws one.

    Example:

    >>> noise = layers.MultiplicativeGaussianNoise(stddev=(0.0, 0.5), num_samples=5, seed=0)
    >>> noise(tf.ones([4, 64])).shape
    TensorShape([4, 5, 64])
    """

    def perturb(
        self, features: tf.Tensor, copies: list[Any], width: int, seeds: tf.Tensor
    ) -> tf.Tensor:
        return features * (1 + self.noise(copies, width, seeds, features.dtype))


@keras.saving.register_keras_serializable(package="s2d_tf")
class AdditiveGaussianNoise(_GaussianNoise):
    """`x + s * eps`; the arguments are those of `MultiplicativeGaussianNoise`.

    Example:

    >>> layers.AdditiveGaussianNoise(stddev=0.1, num_samples=5)(tf.ones([4, 64])).shape
    TensorShape([4, 5, 64])
    """

    def perturb(
        self, features: tf.Tensor, copies: list[Any], width: int, seeds: tf.Tensor
    ) -> tf.Tensor:
        return features + self.noise(copies, width, seeds, features.dtype)


@keras.saving.register_keras_serializable(package="s2d_tf")
class BernoulliNoise(Noise):
    """Dropout: each feature of each copy is zero with probability `rate`, else scaled up.

    Args:
        rate: probability of a zero, in [0, 1).
        num_samples: how many noisy copies to make of each row (the paper's M).
        seed: integer; `None` draws one.

    Example:

    >>> noise = layers.BernoulliNoise(rate=0.5, num_samples=5, seed=0)
    >>> sorted(set(noise(tf.ones([4, 64])).numpy().ravel().tolist()))
    [0.0, 2.0]
    """

    def __init__(
        self, rate: float = 0.1, num_samples: int = 5, seed: int | None = None, **kwargs: Any
    ) -> None:
        super().__init__(num_samples, seed, **kwargs)
        require(
            0 <= rate < 1,
            f"rate: expected a number in [0, 1), received {rate!r}. Pass 0 for no noise.",
        )
        self.rate = rate

    def perturb(
        self, features: tf.Tensor, copies: list[Any], width: int, seeds: tf.Tensor
    ) -> tf.Tensor:
        kept = _draw_rows(tf.random.stateless_uniform, [*copies, width], seeds[0]) >= self.rate
        # One product, so that no graph optimizer can round another way than eager execution does.
        scaled = features * (1 / (1 - self.rate))
        return tf.where(kept, scaled, tf.zeros_like(scaled))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}


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
        require(
            0 <= rate < 1,
            f"rate: expected a number in [0, 1), received {rate!r}. Pass 0 for no dropout.",
        )
        self.rate = rate
        self.seed = random.getrandbits(31) if seed is None else seed
        self.seed_generator = keras.random.SeedGenerator(self.seed)

    def call(self, inputs: tf.Tensor, training: bool = False) -> tf.Tensor:
        member = getattr(_prediction, "member", None)
        if self.rate == 0 or (not training and member is None):
            return inputs
        if member is None:
            seed = _fold_in_replica(_next_seed(self.seed_generator))
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


def _next_seed(seed_generator: keras.random.SeedGenerator) -> tf.Tensor:
    """The generator's next seed as the int32 pair that stateless operations take."""
    return tf.cast(tf.convert_to_tensor(seed_generator.next()), tf.int32)


def _draw_rows(draw: Callable[..., tf.Tensor], local_shape: list[Any], *args: Any) -> tf.Tensor:
    """Draws for the global batch and returns the rows that belong to this replica.

    Every replica sees the same seed, so each draws the same global tensor and takes its own slice:
    row `i` of the global batch gets the same noise on one replica or on many.

    Args:
        draw: one of `tf.random.stateless_*`.
        local_shape: shape of this replica's part, batch first.
        *args: the seed, and what else `draw` takes after the shape.
    """
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return draw(local_shape, *args)
    rows = local_shape[0]
    everything = draw([rows * context.num_replicas_in_sync, *local_shape[1:]], *args)
    first = tf.cast(context.replica_id_in_sync_group, tf.int32) * rows
    return everything[first : first + rows]


def _fold_in_replica(seed: tf.Tensor) -> tf.Tensor:
    """Makes the seed this replica's own, where a global draw would cost too much memory."""
    context = tf.distribute.get_replica_context()
    if context is None or context.num_replicas_in_sync == 1:
        return seed
    replica = tf.cast(context.replica_id_in_sync_group, tf.int32)
    return tf.random.experimental.stateless_fold_in(seed, replica)
