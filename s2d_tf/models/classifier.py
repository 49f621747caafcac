"""The paper's "Individual": a classifier that trains on labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Data, Inputs
from s2d_tf.layers import Head, stack_inputs
from s2d_tf.models import inputs, labels
from s2d_tf.models.cast import Castable
from s2d_tf.models.contract import (
    PIXELS,
    Contract,
    check_backbone,
    clear_errors,
    pixel_statistics,
    require,
)

VERSION_01 = (("teacher", None), ("draws", "independent"))
"""Arguments in configs of version 0.1, with the only value that is left of each."""


@keras.saving.register_keras_serializable(package="s2d_tf")
class Classifier(Castable):
    """A backbone and a linear head, trained with cross-entropy through plain `fit`.

    It takes what the backbone takes: images, token ids, texts, tables, several inputs as a dict,
    list or tuple. With `mean` and `stddev`, images enter as raw pixels and normalization is part of
    the model. With `num_heads` above 1 it is a MIMO network of images: in training it sees
    `[batch, num_heads, height, width, channels]` and labels `[batch, num_heads]`, at prediction
    every head sees the same image and is one member.

    Args:
        backbone: functional or sequential `keras.Model` from the inputs (MIMO: `num_heads` images
            stacked along the channels) to a feature vector.
        num_classes: number of classes.
        mean, stddev: per-channel statistics of the raw pixels of images; `None` leaves them as
            they are.
        weight_decay: coupled L2 decay of all trainable weights, also batch-norm and biases:
            `weight_decay * w` is added to the gradients, as the original recipes do.
        num_heads: heads of a MIMO network.
        seed: integer that fixes the head's start and all noise; `None` draws one.
        input_range: lowest and highest value of the inputs, `(low, high)` or a dict of it by name.
            `None`: raw pixels in [0, 255] where `mean` or `stddev` is given; else `fit` learns it.
            The model's `contract` has it.

    Example:

    >>> model = models.Classifier(backbone, num_classes=3, mean=[127.0], stddev=[64.0])
    >>> model.compile("sgd")
    >>> history = model.fit(images, labels, epochs=1, verbose=0)
    >>> model.predict_uncertainty(images)["probs"].shape
    (40, 3)
    """

    def __init__(
        self,
        backbone: keras.Model,
        num_classes: int,
        mean: Sequence[float] | None = None,
        stddev: Sequence[float] | None = None,
        weight_decay: float = 0.0,
        num_heads: int = 1,
        seed: int | None = None,
        input_range: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        check_backbone(backbone)
        require(
            num_classes >= 2,
            f"num_classes: expected at least 2, received {num_classes!r}. Pass their number.",
        )
        require(
            num_heads >= 1,
            f"num_heads: expected at least 1, received {num_heads!r}. Pass 1 if it is not MIMO.",
        )
        require(
            weight_decay >= 0,
            f"weight_decay: expected at least 0, received {weight_decay!r}. Pass 0 for none.",
        )
        self.backbone = backbone
        self.num_classes = num_classes
        if input_range is None and not (mean is None and stddev is None):
            input_range = PIXELS
        self.contract = Contract.of(backbone, input_range, num_heads)
        self.mean = pixel_statistics("mean", mean, self.contract)
        self.stddev = pixel_statistics("stddev", stddev, self.contract)
        self.weight_decay = weight_decay
        self.num_heads = num_heads
        self.seed = seed
        self.head = Head(num_classes, num_heads, seed=seed, name="head")
        self.head.build((None, 1, 1, backbone.output_shape[-1]))
        self.trackers: dict[str, keras.metrics.Metric] = {}
        self.built = True

    @property
    def num_members(self) -> int:  # type: ignore[override]
        return self.num_heads

    def adapt(self, images: Data, num_images: int = 5000) -> None:
        """Fits what the backbone takes from images alone: a whitening stem, if it is not fitted.

        `fit` does it by itself.

        Args:
            images: raw training images, `[n, height, width, channels]` or, as a MIMO network
                trains on them, `[n, num_heads, height, width, channels]`; or a batched
                `tf.data.Dataset` of them or of `(images, ...)`.
            num_images: how many of the first ones to use.
        """
        stems = [layer for layer in self.backbone.layers if not getattr(layer, "fitted", True)]
        if not stems:
            return
        if isinstance(images, tf.data.Dataset):
            images = images.map(lambda *data: data[0]).unbatch().take(num_images)
            images = np.stack(list(images.as_numpy_iterator()))
        images = tf.reshape(images[:num_images], [-1, *images.shape[-3:]])
        images = self.normalize(images)
        # A MIMO network sees different images together.
        images = tf.concat([tf.roll(images, i, axis=0) for i in range(self.num_heads)], axis=-1)
        for stem in stems:
            stem.adapt(images)

    def normalize(self, x: Inputs) -> Inputs:
        """Inputs as the backbone takes them: numbers in float32, pixels normalized."""
        x = inputs.cast(x, self.contract)
        if self.mean is not None:
            x = x - tf.constant(self.mean, tf.float32)
        if self.stddev is not None:
            x = x / tf.constant(self.stddev, tf.float32)
        return x

    @property
    def last_layer(self) -> Head:
        return self.head

    def features(self, inputs: Inputs, training: bool = False) -> tf.Tensor:
        x = self.normalize(inputs)
        x = x if self.num_heads == 1 else stack_inputs(x, self.num_heads)
        return self.backbone(x, training=training)

    def call(self, inputs: Inputs, training: bool = False) -> Any:
        logits = self.head(self.features(inputs, training)[:, None, None, :])
        return self._heads_first(logits[:, :, 0, :])

    def _heads_first(self, logits):
        """`[batch, heads, classes]` as the public shape: `[batch, classes]`, MIMO heads first."""
        return logits[:, 0] if self.num_heads == 1 else tf.transpose(logits, [1, 0, 2])

    def member_logits(self, inputs: Inputs) -> tf.Tensor:
        logits = self(inputs, training=False)
        return logits if self.num_heads > 1 else logits[None]

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool | str = "auto",
        auto_scale_loss: bool = True,
    ) -> None:
        """Keras' `compile` with the right defaults: cross-entropy from logits, and accuracy.

        The default loss takes class numbers, one-hot vectors and probabilities as labels.
        """
        loss = labels.LabelCrossEntropy() if loss is None else loss
        labels.check_loss(loss)
        metrics = ["accuracy"] if metrics is None else metrics
        if isinstance(metrics, (list, tuple)):
            metrics = [labels.LabelAccuracy() if each == "accuracy" else each for each in metrics]
        super().compile(
            optimizer,
            loss,
            loss_weights,
            metrics,
            weighted_metrics,
            run_eagerly,
            steps_per_execution,
            jit_compile,
            auto_scale_loss,
        )

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """So that a model that Keras loads is compiled again, although `compile` is our own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def fit(
        self,
        x: Data | None = None,
        y: Any = None,
        batch_size: int | None = None,
        epochs: int = 1,
        verbose: Any = "auto",
        callbacks: Any = None,
        validation_split: float = 0.0,
        validation_data: Any = None,
        shuffle: bool = True,
        class_weight: dict[int, float] | None = None,
        sample_weight: Any = None,
        initial_epoch: int = 0,
        steps_per_epoch: int | None = None,
        validation_steps: int | None = None,
        validation_batch_size: int | None = None,
        validation_freq: Any = 1,
    ) -> keras.callbacks.History:
        """Keras' `fit`; bad inputs and labels raise a `ValueError` that says what is wrong.

        A backbone with a stem that is not fitted is adapted to the first images. Ranges of the
        inputs that nobody declared are learned. A loss that becomes NaN
        stops the training with an error, and the weights are those of the start of the epoch.
        """
        inputs.check_ends(None if validation_steps else validation_data)
        if not isinstance(validation_data, (tuple, list)):
            held = {"shuffle": False}
            validation_data = inputs.checked(validation_data, None, self._checks(), held)
        named = getattr(x, "class_names", ())  # of keras.utils.image_dataset_from_directory
        if self.class_names is None and len(named) == self.num_classes:
            self.class_names = tuple(named)
        callbacks = keras.tree.flatten(callbacks or [])
        if not any(getattr(each, "requires_finite_loss", False) for each in callbacks):
            # First, so that no other saves weights that are lost.
            callbacks = [labels.FiniteLoss(), *callbacks]
        # The order of a pipeline is its own.
        shuffle = shuffle and not isinstance(x, tf.data.Dataset)
        given = {"shuffle": shuffle, "class_weight": class_weight}
        with clear_errors():
            x = inputs.checked(x, y, self._checks({}), given)
            if isinstance(x, (tf.data.Dataset, np.ndarray, tf.Tensor)):  # can be read twice
                self.adapt(x)
            self.check_fitted()
            return super().fit(
                x,
                y,
                batch_size=batch_size,
                epochs=epochs,
                verbose=verbose,
                callbacks=callbacks,
                validation_split=validation_split,
                validation_data=validation_data,
                sample_weight=sample_weight,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=validation_batch_size,
                validation_freq=validation_freq,
                **given,
            )

    def train_on_batch(
        self, x: Inputs, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Keras' `train_on_batch`, with the checks of `fit`; batches widen a range that does not
        bound the inputs yet."""
        with clear_errors():
            bounded = all(each.bounded for each in self.contract.tensors)
            seen = {} if bounded else self.__dict__.setdefault("_seen", {})
            x = inputs.checked(x, y, self._checks(seen), {})
            self.check_fitted()
            return super().train_on_batch(x, y, sample_weight, **kwargs)

    def evaluate(
        self,
        x: Data | None = None,
        y: Any = None,
        batch_size: int | None = None,
        verbose: Any = "auto",
        sample_weight: Any = None,
        steps: int | None = None,
        callbacks: Any = None,
        return_dict: bool = False,
        **kwargs: Any,
    ) -> Any:
        """Keras' `evaluate`, with the checks of `fit`."""
        if steps is None:
            inputs.check_ends(x)
        with clear_errors():
            x = inputs.checked(x, y, self._checks(), {"shuffle": False})
            return super().evaluate(
                x, y, batch_size, verbose, sample_weight, steps, callbacks, return_dict, **kwargs
            )

    def test_on_batch(
        self, x: Inputs, y: Any = None, sample_weight: Any = None, **kwargs: Any
    ) -> Any:
        """Keras' `test_on_batch`, with the checks of `evaluate`."""
        with clear_errors():
            x = inputs.checked(x, y, self._checks(), {})
            return super().test_on_batch(x, y, sample_weight, **kwargs)

    def _check(self, x, targets, training=False):
        super()._check(x, targets, training)
        targets = targets["labels"] if isinstance(targets, dict) else targets
        if targets is not None:
            labels.check_labels(targets, self.num_classes, self.num_heads)

    def compute_loss(
        self,
        x: Data | None = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        loss = self.num_heads * super().compute_loss(
            x, *self._rows(y, y_pred, sample_weight), training=training
        )
        return loss + self._decay() if training else loss

    def _rows(self, y, logits, sample_weight):
        """Labels, logits and sample weights with one row for each head of each example."""
        y = y["labels"] if isinstance(y, dict) else y
        return labels.rows(y, logits, sample_weight, self.num_classes, self.num_heads)

    def _decay(self):
        """This replica's share of the L2 penalty whose gradient is `weight_decay * w`."""
        if not self.weight_decay:
            return 0.0
        squares = tf.add_n([tf.nn.l2_loss(tf.convert_to_tensor(w)) for w in self.trainable_weights])
        return self.weight_decay * squares / _replicas()

    def compute_metrics(
        self, x: Data, y: Any, y_pred: Any, sample_weight: tf.Tensor | None = None
    ) -> dict[str, Any]:
        return super().compute_metrics(x, *self._rows(y, y_pred, sample_weight))

    def _track(self, name, loss, rows):
        """Logs a part of the loss, which Keras has scaled for its share of the global batch.

        A smaller last batch counts by its rows, as in the loss that Keras logs.
        """
        self.trackers[name].update_state(loss * _replicas(), sample_weight=tf.shape(rows)[0])

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "num_classes": self.num_classes,
            "mean": self.mean,
            "stddev": self.stddev,
            "weight_decay": self.weight_decay,
            "num_heads": self.num_heads,
            "seed": self.seed,
            "contract": self.contract.to_dict(),
            **({} if self.cast_head is None else {"cast_head": self.cast_head}),
            **({} if self.class_names is None else {"class_names": list(self.class_names)}),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        arguments = {
            name: keras.saving.deserialize_keras_object(value)
            for name, value in config.items()
            if name not in ("contract", "cast_head", "class_names")
            and (name, value) not in VERSION_01
        }
        model = cls(**arguments)
        if config.get("contract") is not None:
            model.contract = Contract.from_dict(config["contract"])
        model.cast_head, model.class_names = config.get("cast_head"), config.get("class_names")
        return model


def _replicas():
    """Number of replicas that share the global batch."""
    return tf.distribute.get_strategy().num_replicas_in_sync
