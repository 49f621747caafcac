"""SWAG-Diag: members are draws from a diagonal Gaussian over weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Array, Inputs
from s2d_tf.models.ensemble import SampledPredictor

if TYPE_CHECKING:
    from s2d_tf.models.predictor import Predictor


class SWAG(SampledPredictor):
    """Weights drawn from `N(mean, stddev^2)`, with batch-norm statistics of their own.

    The given model holds the mean. Deviations and the statistics of each draw are weights of this
    model, so that it loads and exports without training data.

    Args:
        model: a `Classifier` or `S2DClassifier`.
        num_samples: number of weight draws.
        seed: integer; the draws are a pure function of it.

    Example:

    >>> swag = models.SWAG(model, num_samples=5)
    >>> weights = [weight.numpy() for weight in model.trainable_variables]
    >>> swag.set_moments(weights, [np.square(weight) + 1e-4 for weight in weights])
    >>> swag.recompute_statistics([images])
    >>> swag.predict_members(images)[1].shape
    (5, 40, 3)
    """

    def __init__(
        self, model: Predictor, num_samples: int = 5, seed: int = 0, **kwargs: Any
    ) -> None:
        super().__init__(model, num_samples, **kwargs)
        self.seed = seed
        self.stddev = [
            self.add_weight(name=f"stddev_{i}", shape=w.shape, initializer="zeros", trainable=False)
            for i, w in enumerate(model.trainable_variables)
        ]
        self.statistics = [
            self.add_weight(
                name=f"statistics_{i}",
                shape=(num_samples, *w.shape),
                initializer="zeros",
                trainable=False,
            )
            for i, w in enumerate(self._batch_norm_variables())
        ]

    @property
    def num_parameters(self) -> int:
        return 2 * self.model.num_parameters  # mean and deviation

    @property
    def networks(self) -> list[keras.Model]:
        return [self]  # the deviations are its own

    def set_moments(self, mean: Sequence[Array], second_moment: Sequence[Array]) -> None:
        """Sets the Gaussian from the mean and the mean square of the weights along training."""
        for weight, stddev, first, second in zip(
            self.model.trainable_variables, self.stddev, mean, second_moment, strict=True
        ):
            weight.assign(first)
            stddev.assign(np.sqrt(np.maximum(np.asarray(second) - np.square(first), 0)))

    def drawn_weights(self, sample: int) -> list[tf.Tensor]:
        """The trainable weights of one draw."""
        return [
            weight
            + stddev
            * tf.random.stateless_normal(weight.shape, [self.seed, sample * 100_003 + index])
            for index, (weight, stddev) in enumerate(
                zip(self.model.trainable_variables, self.stddev, strict=True)
            )
        ]

    def recompute_statistics(self, batches: Iterable[Inputs]) -> None:
        """Sets each draw's batch-norm statistics to their average over the training inputs.

        Args:
            batches: a re-iterable of batches of inputs without augmentation noise of its own, for
                example a finite `tf.data.Dataset`.
        """
        norms = [layer for layer in self.model._flatten_layers() if _is_batch_norm(layer)]
        momenta = [norm.momentum for norm in norms]
        targets = self._batch_norm_variables()
        positions = {id(v): i for i, v in enumerate(self.model.non_trainable_variables)}
        try:
            for norm in norms:
                norm.momentum = 0.0  # so that the "moving" statistics are the batch's own

            @tf.function
            def batch_statistics(weights, batch):
                state = [tf.convert_to_tensor(v) for v in self.model.non_trainable_variables]
                _, updated = self.model.stateless_call(weights, state, batch, training=True)
                return [updated[positions[id(v)]] for v in targets]

            for sample in range(self.num_samples):
                weights = self.drawn_weights(sample)
                sums, count = [0.0] * len(targets), 0
                for batch in batches:
                    values = batch_statistics(weights, batch)
                    rows = len(keras.tree.flatten(batch)[0])
                    sums = [total + rows * value for total, value in zip(sums, values, strict=True)]
                    count += rows
                if not count:
                    raise ValueError(
                        "batches: expected at least one, received none. Check the data."
                    )
                for statistic, total in zip(self.statistics, sums, strict=True):
                    statistic.assign(
                        tf.tensor_scatter_nd_update(statistic, [[sample]], [total / count])
                    )
        finally:
            for norm, momentum in zip(norms, momenta, strict=True):
                norm.momentum = momentum

    def draw_logits(self, sample: int, inputs: Inputs) -> tf.Tensor:
        positions = {id(v): i for i, v in enumerate(self._batch_norm_variables())}
        state = [
            self.statistics[positions[id(v)]][sample]
            if id(v) in positions
            else tf.convert_to_tensor(v)
            for v in self.model.non_trainable_variables
        ]
        logits, _ = self.model.stateless_call(
            self.drawn_weights(sample), state, inputs, training=False
        )
        return logits if self.model.num_heads > 1 else logits[None]

    def _batch_norm_variables(self):
        return [
            variable
            for layer in self.model._flatten_layers()
            if _is_batch_norm(layer)
            for variable in (layer.moving_mean, layer.moving_variance)
        ]


def _is_batch_norm(layer: keras.layers.Layer) -> bool:
    return isinstance(layer, keras.layers.BatchNormalization)
