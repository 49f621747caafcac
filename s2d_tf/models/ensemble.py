"""Members drawn at prediction: from several networks, or from dropout masks."""

import tensorflow as tf

from s2d_tf.layers import Dropout, monte_carlo_member
from s2d_tf.models.predictor import Predictor


class Ensemble(Predictor):
    """Several predictors of one kind as one: a deep ensemble.

    Args:
        members: predictors of the same kind, classes and image shape, usually trained from
            different seeds.
    """

    def __init__(self, members, **kwargs):
        super().__init__(**kwargs)
        members = list(members)
        if not members:
            raise ValueError("An ensemble needs at least one member, received none.")
        first = members[0]
        for member in members[1:]:
            for name in ("kind", "num_classes", "image_shape"):
                if getattr(member, name) != getattr(first, name):
                    raise ValueError(
                        f"The members of an ensemble must agree in {name}, received "
                        f"{getattr(first, name)!r} and {getattr(member, name)!r}."
                    )
        self.members = members
        self.kind = first.kind
        self.num_classes = first.num_classes
        self.image_shape = first.image_shape
        self.built = True

    @property
    def num_members(self):
        return sum(member.num_members for member in self.members)

    def member_logits(self, images):
        return tf.concat([member.member_logits(images) for member in self.members], axis=0)

    def call(self, images):
        return self.member_logits(images)


class MonteCarloDropout(Predictor):
    """A model trained with dropout whose members are drawn dropout masks.

    Only dropout is random: batch norm is in inference mode and S2D's noise is off. Each member's
    masks are one draw, the same for all images.

    Args:
        model: a `Classifier` or `S2DClassifier` with `layers.Dropout` in its backbone.
        num_samples: number of masks.
    """

    def __init__(self, model, num_samples=5, **kwargs):
        super().__init__(**kwargs)
        if num_samples < 1:
            raise ValueError(f"num_samples must be at least 1, received {num_samples}.")
        layers = model.backbone.layers
        if not any(isinstance(layer, Dropout) and layer.rate > 0 for layer in layers):
            raise ValueError(
                "Monte Carlo dropout needs a backbone that was built with dropout above 0; "
                "this one has none, so all members would be equal."
            )
        self.model = model
        self.num_samples = num_samples
        self.kind = model.kind
        self.num_classes = model.num_classes
        self.image_shape = model.image_shape
        self.built = True

    @property
    def num_members(self):
        return self.num_samples * self.model.num_members

    def member_logits(self, images):
        members = []
        for member in range(self.num_samples):
            with monte_carlo_member(member):
                members.append(self.model.member_logits(images))
        return tf.concat(members, axis=0)

    def call(self, images):
        return self.member_logits(images)
