"""Keras layers: noise, dropout, heads and the MIMO input."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.layers.heads import Head, stack_inputs
from s2d_tf.layers.noise import (
    AdditiveGaussianNoise,
    BernoulliNoise,
    Dropout,
    MultiplicativeGaussianNoise,
    Noise,
    monte_carlo_member,
)

__all__ = [
    "AdditiveGaussianNoise",
    "BernoulliNoise",
    "Dropout",
    "Head",
    "MultiplicativeGaussianNoise",
    "Noise",
    "monte_carlo_member",
    "stack_inputs",
]
