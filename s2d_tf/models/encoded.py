"""A predictor of vectors, with the frozen encoder that makes them in front."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from s2d_tf._types import Inputs
from s2d_tf.models import inputs
from s2d_tf.models.contract import Contract
from s2d_tf.models.predictor import Predictor
from s2d_tf.models.wrapper import Wrapper


class Encoded(Wrapper):
    """A predictor of vectors that takes what the encoder of these vectors takes.

    Nothing of the encoder is trained, counted as a parameter or changed by it.

    Args:
        encoder: functional `keras.Model` from any inputs, such as texts, to one vector each.
        model: a `Predictor` of these vectors.

    Example:

    >>> texts = keras.Input([4])
    >>> encoder = keras.Model(texts, keras.layers.Dense(3)(texts))
    >>> head = models.Classifier(backbones.dense((3,), width=8), num_classes=2)
    >>> encoded = models.Encoded(encoder, head)
    >>> encoded.predict_uncertainty(np.ones([5, 4], "float32"))["probs"].shape
    (5, 2)
    """

    def __init__(self, encoder: keras.Model, model: Predictor, **kwargs: Any) -> None:
        super().__init__(model, **kwargs)
        inputs.check_backbone(encoder, "encoder")
        made, taken = tuple(encoder.output_shape[1:]), model.contract
        if len(taken.tensors) != 1 or taken.tensors[0].shape != made:
            shapes = [tensor.shape for tensor in taken.tensors]
            raise ValueError(
                f"model: expected one input of shape {made}, which the encoder makes, received "
                f"{shapes}. Choose the encoder on which it was trained."
            )
        encoder.trainable = False
        self.encoder = encoder
        self.contract = Contract.of(encoder)

    @property
    def draw_key(self) -> tuple:
        return ("encoded", *self.model.draw_key)

    @property
    def readings(self) -> dict[str, Callable]:
        return self.model.readings

    def encode(self, x: Inputs) -> tf.Tensor:
        """The vectors of a batch."""
        return self.encoder(inputs.cast(x, self.contract), training=False)

    def features(self, x: Inputs) -> tf.Tensor:
        return self.model.features(self.encode(x))

    def member_logits(self, x: Inputs) -> tf.Tensor:
        return self.model.member_logits(self.encode(x))

    def raw_outputs(self, x: Inputs) -> tf.Tensor:
        return self.model.raw_outputs(self.encode(x))

    def members_from_raw(self, raw: tf.Tensor) -> tf.Tensor:
        return self.model.members_from_raw(raw)

    def served_outputs(self, x: Inputs) -> tuple[tf.Tensor, dict[str, tf.Tensor]]:
        return self.model.served_outputs(self.encode(x))

    def _uncertainty(self, x):
        return self.model._uncertainty(self.encode(x))
