"""A predictor around another one."""

from __future__ import annotations

from typing import Any

import keras

from s2d_tf.models.predictor import Predictor


class Wrapper(Predictor):
    """A predictor with the classes, networks and linear head of the one that it holds.

    A subclass says what it takes and how the members come of it.

    Args:
        model: the predictor inside.
    """

    def __init__(self, model: Predictor, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.model = model
        for name in ("kind", "num_classes", "class_names", "metadata"):
            setattr(self, name, getattr(model, name))
        self.built = True

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.model.num_members

    @property
    def num_parameters(self) -> int:
        return self.model.num_parameters

    @property
    def networks(self) -> list[keras.Model]:
        return self.model.networks

    @property
    def last_layer(self) -> keras.layers.Layer:
        return self.model.last_layer
