"""Members drawn at prediction: from several networks, or from one in several ways."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import tensorflow as tf

from s2d_tf._types import Inputs
from s2d_tf.layers import Dropout, monte_carlo_member
from s2d_tf.models.predictor import Predictor, WrappedPredictor

if TYPE_CHECKING:
    import keras

    from s2d_tf.models.contract import Contract


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
        if not members:
            raise ValueError(
                "members: expected at least one predictor, received none. Pass trained models."
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
            if any(value != values[0] for value in values):
                raise ValueError(
                    f"members: expected predictors of the same {name}, received {values}. "
                    "Leave out those that differ."
                )
        self.kind, self.num_classes = first.kind, first.num_classes
        self.members = members
        self.class_names = first.class_names
        self.built = True

    @property
    def contract(self) -> Contract:  # type: ignore[override]
        known = (member.contract for member in self.members if not member.contract.unknown)
        return next(known, self.members[0].contract)

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
        if num_samples < 1:
            raise ValueError(
                f"num_samples: expected at least 1, received {num_samples!r}. Pass the number of "
                "draws."
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
        if not any(isinstance(layer, Dropout) and layer.rate > 0 for layer in layers):
            raise ValueError(
                "model: expected a backbone with dropout above 0, received one without, whose "
                "members would all be equal. Build the backbone with s2d_tf.layers.Dropout."
            )

    def draw_logits(self, sample: int, inputs: Inputs) -> tf.Tensor:
        with monte_carlo_member(sample):
            return self.model.member_logits(inputs)
