"""Optimizers that Keras does not have."""

from s2d_tf.optimizers.muon import Muon

__all__ = ["Muon"]
