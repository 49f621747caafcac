"""Optimizers that Keras does not have."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.optimizers.muon import Muon

__all__ = ["Muon"]
