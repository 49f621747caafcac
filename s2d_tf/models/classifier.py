"""The paper's "Individual": a classifier that trains on labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import keras
import numpy as np
import tensorflow as tf

from s2d_tf._types import Data, Inputs
from s2d_tf.layers import Head, stack_inputs
from s2d_tf.models import cast, inputs, label_loss
from s2d_tf.models.contract import PIXELS, Contract, check_backbone, pixel_statistics
from s2d_tf.models.predictor import Predictor


@keras.saving.register_keras_serializable(package="s2d_tf")
class Classifier(Predictor):
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
        if num_classes < 2:
            raise ValueError(
                f"num_classes: expected at least 2, received {num_classes!r}. Pass the number of "
                "classes."
            )
        if num_heads < 1:
            raise ValueError(
                f"num_heads: expected at least 1, received {num_heads}. Pass 1 if it is not MIMO."
            )
        if not weight_decay >= 0:
            raise ValueError(
                f"weight_decay: expected at least 0, received {weight_decay!r}. Pass 0 for none."
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

    @classmethod
    def from_classifier(cls, model: keras.Model, freeze: bool = False, **kwargs: Any) -> Self:
        """Casts a trained Keras classifier whose last layer is `Dense` (linear or softmax).

        The features and the linear layer are the given model's own, so its predictions stay as
        they are; nothing is added in front, so it takes what that model took. A KerasHub task
        model (`TextClassifier`, `ImageClassifier`) keeps its preprocessor, so it takes raw texts
        or images. Before it has been trained with `fit`, the concentrations of a model with a
        Dirichlet are arbitrary and its knowledge uncertainty means nothing.

        Args:
            model: a `keras.Model` (functional or sequential) from any inputs to class scores.
            freeze: keep the features fixed and train only the linear layer. Then `head_only`
                trains it on features that are computed once.
            **kwargs: other arguments of this class.
        """
        features, dense = cast.split_classifier(model)
        if freeze:
            features.trainable = False
        made = cls(features, dense.units, **kwargs)
        made.head.kernel.assign(dense.kernel[None])
        if dense.use_bias:
            made.head.bias.assign(dense.bias[None])
        return made

    def predict_features(self, x: Data, batch_size: int = 256) -> np.ndarray:
        """`features` of all examples, `[n, d]`; arguments as for `predict_members`."""
        found = [batch["value"] for batch, _ in self.map_batches("features", x, batch_size)]
        return np.concatenate(found)

    def head_only(self, fresh: bool = False, **changes: Any) -> Any:
        """A model of the same class and settings that takes this one's features.

        With frozen features nothing else is trained, and they do not change: compute them once
        with `predict_features`, then fit this model in seconds, with as many seeds and settings as
        you like. Dropout of the backbone is not in it. `take_head` puts a result back.

        Args:
            fresh: start from new weights, drawn from the seed, instead of this model's.
            **changes: constructor arguments with other values.

        Example:

        ```python
        model = models.S2DClassifier.from_classifier(keras_model, freeze=True)
        cached = model.predict_features(x)                       # once
        head = model.head_only(fresh=True, seed=1, student_weight=1e-3)
        head.compile("adam")
        head.fit(cached, y, epochs=20)                           # seconds
        model.take_head(head).predict_uncertainty(x)
        ```
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
    def linear_layers(self) -> list[keras.layers.Layer]:
        """The layers after the features that a prediction or the training uses."""
        return [self.head]

    @property
    def last_layer(self) -> Head:
        return self.head

    def features(self, inputs: Inputs, training: bool = False) -> tf.Tensor:
        x = self.normalize(inputs)
        x = x if self.num_heads == 1 else stack_inputs(x, self.num_heads)
        return self.backbone(x, training=training)

    def call(self, inputs: Inputs, training: bool = False) -> Any:
        logits = self.head(self.features(inputs, training)[:, None, None, :])
        return self.heads_first(logits[:, :, 0, :])

    def heads_first(self, logits: tf.Tensor) -> tf.Tensor:
        """`[batch, heads, classes]` as the public shape: `[batch, classes]`, MIMO heads first."""
        return logits[:, 0] if self.num_heads == 1 else tf.transpose(logits, [1, 0, 2])

    def rows(self, tensor: tf.Tensor) -> tf.Tensor:
        """Each head of each example as a row of its own: the inverse of `heads_first`."""
        if self.num_heads == 1:
            return tensor
        return tf.reshape(tf.transpose(tensor, [1, 0, 2]), [-1, self.num_classes])

    def member_logits(self, inputs: Inputs) -> tf.Tensor:
        logits = self(inputs, training=False)
        return logits if self.num_heads > 1 else logits[None]

    def predict_step(self, data: Data) -> tf.Tensor:
        logits = super().predict_step(data)
        return logits if self.num_heads == 1 else tf.transpose(logits, [1, 0, 2])

    def compile(
        self, optimizer: Any = "sgd", loss: Any = None, metrics: Any = None, **kwargs: Any
    ) -> None:
        """Keras' `compile` with the right defaults: cross-entropy from logits, and accuracy.

        The default loss takes class numbers, one-hot vectors and probabilities as labels.
        """
        loss = label_loss.LabelCrossEntropy() if loss is None else loss
        label_loss.check_loss(loss)
        metrics = ["accuracy"] if metrics is None else metrics
        if isinstance(metrics, (list, tuple)):
            metrics = [
                label_loss.LabelAccuracy() if each == "accuracy" else each for each in metrics
            ]
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """So that a model that Keras loads is compiled again, although `compile` is our own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def fit(self, x: Data | None = None, y: Any = None, **kwargs: Any) -> keras.callbacks.History:
        """Keras' `fit`; bad inputs and labels raise a `ValueError` that says what is wrong.

        A backbone with a stem that is not fitted is adapted to the first images. Ranges of the
        inputs that nobody declared are learned. A loss that becomes NaN
        stops the training with an error, and the weights are those of the start of the epoch.
        """
        held = kwargs.get("validation_data")
        if not isinstance(held, (tuple, list)):
            kwargs["validation_data"] = inputs.checked(held, None, self._check, {})
        callbacks = keras.tree.flatten(kwargs.get("callbacks") or [])
        if not any(getattr(each, "requires_finite_loss", False) for each in callbacks):
            # First, so that no other saves weights that are lost.
            kwargs["callbacks"] = [label_loss.FiniteLoss(), *callbacks]
        if isinstance(x, tf.data.Dataset):
            kwargs.setdefault("shuffle", False)  # the order is the pipeline's
        readable_twice = isinstance(x, (tf.data.Dataset, np.ndarray, tf.Tensor))
        if not readable_twice:
            self.check_fitted()  # before a generator has lost its first batches
        seen = inputs.SeenRanges(self.contract)

        def check(batch, targets):
            self._check_training(batch, targets)
            if tf.executing_eagerly():
                inputs.warn_outside(batch, self.contract)
            seen.add(batch)

        with inputs.clear_errors():
            x = inputs.checked(x, y, check, kwargs)
            if readable_twice:
                self.adapt(x)
            self.check_fitted()
            history = super().fit(x, y, **kwargs)
        self.contract = self.contract.learned(seen.ranges)
        return history

    def evaluate(self, x: Data | None = None, y: Any = None, **kwargs: Any) -> Any:
        """Keras' `evaluate`, with the checks of `fit`."""
        with inputs.clear_errors():
            return super().evaluate(inputs.checked(x, y, self._check, kwargs), y, **kwargs)

    def _check_training(self, x, targets):
        self._check(x, targets)

    def _check(self, x, targets):
        inputs.check(x, self.contract, self.num_heads)
        targets = targets["labels"] if isinstance(targets, dict) else targets
        if targets is not None:
            inputs.check_labels(targets, self.num_classes, self.num_heads)

    def compute_loss(
        self,
        x: Data | None = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: tf.Tensor | None = None,
        training: bool = True,
    ) -> tf.Tensor:
        loss = self.num_heads * super().compute_loss(
            x, *self.label_rows(y, y_pred, sample_weight), training=training
        )
        return loss + self.decay() if training else loss

    def label_rows(
        self, y: Any, logits: tf.Tensor, sample_weight: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
        """Labels, logits and sample weights with one row for each head of each example.

        One label for all heads is repeated.
        """
        y = y["labels"] if isinstance(y, dict) else y
        targets, sample_weight = inputs.label_rows(
            y, sample_weight, self.num_classes, self.num_heads
        )
        return targets, self.rows(logits), sample_weight

    def decay(self) -> tf.Tensor | float:
        """This replica's share of the L2 penalty whose gradient is `weight_decay * w`."""
        if not self.weight_decay:
            return 0.0
        squares = tf.add_n([tf.nn.l2_loss(tf.convert_to_tensor(w)) for w in self.trainable_weights])
        return self.weight_decay * squares / replicas()

    def compute_metrics(
        self, x: Data, y: Any, y_pred: Any, sample_weight: tf.Tensor | None = None
    ) -> dict[str, Any]:
        return super().compute_metrics(x, *self.label_rows(y, y_pred, sample_weight))

    def track(self, name: str, loss: tf.Tensor, rows: tf.Tensor) -> None:
        """Logs a part of the loss, which Keras has scaled for its share of the global batch.

        A smaller last batch counts by its rows, as in the loss that Keras logs.
        """
        self.trackers[name].update_state(loss * replicas(), sample_weight=tf.shape(rows)[0])

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
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        config = dict(config)
        contract = config.pop("contract", None)
        config = {key: keras.saving.deserialize_keras_object(config[key]) for key in config}
        model = cls(**config)
        if contract is not None:
            model.contract = Contract.from_dict(contract)
        return model


def replicas() -> int:
    """Number of replicas that share the global batch."""
    return tf.distribute.get_strategy().num_replicas_in_sync
