"""Predictors of several members: deep ensembles, dropout masks, and weights drawn by SWAG-Diag."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Array, Inputs
from s2d_tf.layers import Dropout, monte_carlo_member
from s2d_tf.models.contract import Contract, require
from s2d_tf.models.predictor import Predictor, WrappedPredictor


class Ensemble(Predictor):
    """Several predictors of one kind as one: a deep ensemble.

    Args:
        members: predictors of the same kind, classes and inputs, usually trained from
            different seeds.

    Example:

    >>> ensemble = models.Ensemble([model, model])         # usually trained from different seeds
    >>> kind, member_logits = ensemble.predict_members(images)
    >>> member_logits.shape
    (2, 40, 3)
    """

    def __init__(self, members: list[Predictor], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        members = list(members)
        require(
            members, "members: expected at least one predictor, received none. Pass trained models."
        )
        first = members[0]
        compared: dict[str, list] = {
            "kind": [member.kind for member in members],
            "num_classes": [member.num_classes for member in members],
            "inputs": [[(t.name, t.shape, t.dtype) for t in m.contract.tensors] for m in members],
            "input ranges": [
                [tensor.range if tensor.bounded else None for tensor in member.contract.tensors]
                for member in members
                if not member.contract.unknown
            ],
        }
        for name, values in compared.items():
            require(
                all(value == values[0] for value in values),
                f"members: expected predictors of the same {name}, received {values}. Leave out "
                "those that differ.",
            )
        self.kind, self.num_classes = first.kind, first.num_classes
        self.members = members
        self.class_names = first.class_names
        self.built = True

    @property
    def contract(self) -> Contract:
        known = (member.contract for member in self.members if not member.contract.unknown)
        return next(known, self.members[0].contract)

    @contract.setter
    def contract(self, learned: Contract) -> None:
        for member in self.members:
            member.contract = learned

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return sum(member.num_members for member in self.members)

    @property
    def num_parameters(self) -> int:
        return sum(member.num_parameters for member in self.members)

    @property
    def networks(self) -> list[keras.Model]:
        return [network for member in self.members for network in member.networks]

    @property
    def cached_predictors(self) -> list[Predictor]:
        return [each for member in self.members for each in member.cached_predictors]

    def member_logits(self, inputs: Inputs) -> tf.Tensor:
        return tf.concat([member.member_logits(inputs) for member in self.members], axis=0)


class SampledPredictor(WrappedPredictor):
    """Base of predictors that draw several members from one model.

    Args:
        model: a `Classifier` or `S2DClassifier`.
        num_samples: number of draws.
    """

    def __init__(self, model: Predictor, num_samples: int = 5, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        require(
            num_samples >= 1,
            f"num_samples: expected at least 1, received {num_samples!r}. Pass their number.",
        )
        self.num_samples = num_samples

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.num_samples * self.model.num_members

    @property
    def last_layer(self) -> keras.layers.Layer:
        raise self._not_a_network("last_layer")

    def draw_logits(self, sample: int, inputs: Inputs) -> tf.Tensor:
        """Member predictions of one draw, `[members of the model, batch, classes]`."""
        raise NotImplementedError

    def member_logits(self, inputs: Inputs) -> tf.Tensor:
        draws = [self.draw_logits(sample, inputs) for sample in range(self.num_samples)]
        return tf.concat(draws, axis=0)


class MonteCarloDropout(SampledPredictor):
    """A model trained with dropout whose members are drawn dropout masks.

    Only dropout is random: batch norm is in inference mode and S2D's noise is off. Each member's
    masks are one draw, the same for all examples.

    Args:
        model: a `Classifier` or `S2DClassifier` with `layers.Dropout` in its backbone.
        num_samples: number of masks.

    Example:

    >>> wide = backbones.wide_resnet(input_shape=(8, 8, 1), depth=10, width=1, dropout=0.3)
    >>> network = models.Classifier(wide, num_classes=3)
    >>> models.MonteCarloDropout(network, num_samples=5).num_members
    5
    """

    def __init__(self, model: Predictor, num_samples: int = 5, **kwargs: Any) -> None:
        super().__init__(model, num_samples, **kwargs)
        layers = model.backbone._flatten_layers()
        require(
            any(isinstance(layer, Dropout) and layer.rate > 0 for layer in layers),
            "model: expected a backbone with dropout above 0, received one without, whose members "
            "would all be equal. Build the backbone with s2d_tf.layers.Dropout.",
        )

    def draw_logits(self, sample: int, inputs: Inputs) -> tf.Tensor:
        with monte_carlo_member(sample):
            return self.model.member_logits(inputs)


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
        norms = self._batch_norms()
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
                require(count, "batches: expected at least one, received none. Check the data.")
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

    def _batch_norms(self):
        kind = keras.layers.BatchNormalization
        return [layer for layer in self.model._flatten_layers() if isinstance(layer, kind)]

    def _batch_norm_variables(self):
        return [
            variable
            for norm in self._batch_norms()
            for variable in (norm.moving_mean, norm.moving_variance)
        ]
