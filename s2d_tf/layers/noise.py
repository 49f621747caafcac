"""The stochastic regularizers that turn one feature vector into many teacher inputs."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from s2d_tf._types import Shape
from s2d_tf.layers.randomness import draw_rows, next_seed


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
        if num_samples < 1:
            raise ValueError(
                f"num_samples: expected at least 1 teacher pass, received {num_samples!r}. The "
                "paper has 5."
            )
        self.num_samples = num_samples
        self.seed = seed
        self.seed_generator = keras.random.SeedGenerator(seed)

    def call(self, features: tf.Tensor) -> tf.Tensor:
        shape = tf.shape(features)
        copies = [shape[i] for i in range(len(features.shape) - 1)] + [self.num_samples]
        seeds = tf.random.split(next_seed(self.seed_generator), 2)
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
        if not 0 <= low <= high:
            raise ValueError(
                "stddev: expected a number of at least 0 or a pair (low, high) with 0 <= low <= "
                f"high, received {stddev!r}. The paper has 0.1."
            )
        self.stddev = tuple(stddev) if isinstance(stddev, (tuple, list)) else stddev
        self._low, self._high = float(low), float(high)

    def noise(self, copies: list[Any], width: int, seeds: tf.Tensor, dtype: Any) -> tf.Tensor:
        """Zero-mean noise `[*copies, width]`; the deviation is shared by a row's features."""

        def normal(shape):
            return tf.random.stateless_normal(shape, seeds[0])

        def uniform(shape):
            return tf.random.stateless_uniform(shape, seeds[1], self._low, self._high)

        noise = draw_rows(normal, [*copies, width])
        if self._low == self._high:
            return tf.cast(self._low * noise, dtype)
        return tf.cast(draw_rows(uniform, [*copies, 1]) * noise, dtype)

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
        if not 0 <= rate < 1:
            raise ValueError(
                f"rate: expected a number in [0, 1), received {rate!r}. Pass 0 for no noise."
            )
        self.rate = rate

    def perturb(
        self, features: tf.Tensor, copies: list[Any], width: int, seeds: tf.Tensor
    ) -> tf.Tensor:
        def uniform(shape):
            return tf.random.stateless_uniform(shape, seeds[0])

        kept = draw_rows(uniform, [*copies, width]) >= self.rate
        # One product, so that no graph optimizer can round another way than eager execution does.
        scaled = features * (1 / (1 - self.rate))
        return tf.where(kept, scaled, tf.zeros_like(scaled))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "rate": self.rate}
