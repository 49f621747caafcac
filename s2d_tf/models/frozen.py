"""Frozen features are computed once; the linear layer after them is then trained in seconds."""

from __future__ import annotations

from typing import Any, Self

import keras
import numpy as np

from s2d_tf._types import Data


class FrozenFeatures:
    """What a classifier has for training its linear layer on cached features.

    Example:

    >>> model = models.S2DClassifier.from_classifier(keras_model, freeze=True)
    >>> cached = model.predict_features(x)                       # once
    >>> for seed in range(5):
    ...     head = model.head_only(fresh=True, seed=seed, student_weight=1e-3)
    ...     head.compile("adam")
    ...     head.fit(cached, y, epochs=20)                       # seconds
    >>> model.take_head(head).predict_uncertainty(x)
    """

    def predict_features(self: Any, x: Data, batch_size: int = 256) -> np.ndarray:
        """`features` of all examples, `[n, d]`; arguments as for `predict_members`."""
        batches = self._map_batches("features", x, batch_size)
        return np.concatenate([batch["value"] for batch in batches])

    def head_only(self: Any, fresh: bool = False, **changes: Any) -> Any:
        """A model of the same class and settings that takes this one's features.

        With frozen features nothing else is trained, and they do not change: compute them once
        with `predict_features`, then fit this model in seconds, with as many seeds and settings as
        you like. Dropout of the backbone is not in it. `take_head` puts a result back.

        Args:
            fresh: start from new weights, drawn from the seed, instead of this model's.
            **changes: constructor arguments with other values.
        """
        features = keras.Input([self.backbone.output_shape[-1]], name="features")
        config = self.get_config()
        for name in ("mean", "stddev", "contract", "name"):
            config.pop(name, None)
        config["backbone"] = keras.saving.serialize_keras_object(keras.Model(features, features))
        made = type(self).from_config({**config, **changes})
        return made if fresh else made.take_head(self)

    def take_head(self, model: Any) -> Self:
        """Copies the linear layers of a model over the same features; returns `self`."""
        for own, other in zip(self.linear_layers, model.linear_layers, strict=True):
            own.set_weights(other.get_weights())
        return self

    @property
    def linear_layers(self: Any) -> list[keras.layers.Layer]:
        """The layers after the features that a prediction or the training uses."""
        return [self.head]
