"""The paper's "Individual": a classifier that trains on labels."""

import keras
import numpy as np
import tensorflow as tf

from s2d_tf.layers import Head, stack_inputs
from s2d_tf.models.inputs import check_images, check_labels, checked, clear_errors
from s2d_tf.models.predictor import Predictor


@keras.saving.register_keras_serializable(package="s2d_tf")
class Classifier(Predictor):
    """A backbone and a linear head, trained with cross-entropy through plain `fit`.

    Images enter as raw pixels; normalization is part of the model. With `num_heads` above 1 it is
    a MIMO network: in training it sees `[batch, num_heads, height, width, channels]` and labels
    `[batch, num_heads]`, at prediction every head sees the same image and is one member.

    Args:
        backbone: `keras.Model` from images (MIMO: `num_heads` images stacked along the channels)
            to a feature vector.
        num_classes: number of classes.
        mean, stddev: per-channel statistics of the raw pixels; `None` leaves them as they are.
        weight_decay: coupled L2 decay of all trainable weights, also batch-norm and biases:
            `weight_decay * w` is added to the gradients, as the original recipes do.
        num_heads: heads of a MIMO network.
        seed: integer that fixes the head's start and all noise; `None` draws one.
    """

    def __init__(
        self,
        backbone,
        num_classes,
        mean=None,
        stddev=None,
        weight_decay=0.0,
        num_heads=1,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        *size, channels = backbone.input_shape[1:]
        if num_classes < 2:
            raise ValueError(f"num_classes must be at least 2, received {num_classes}.")
        if num_heads < 1 or channels % num_heads:
            raise ValueError(
                f"num_heads must be at least 1 and divide the backbone's {channels} input "
                f"channels, received {num_heads}."
            )
        if not weight_decay >= 0:
            raise ValueError(f"weight_decay must not be negative, received {weight_decay}.")
        self.backbone = backbone
        self.num_classes = num_classes
        self.mean = pixel_statistics("mean", mean, channels // num_heads)
        self.stddev = pixel_statistics("stddev", stddev, channels // num_heads)
        self.weight_decay = weight_decay
        self.num_heads = num_heads
        self.seed = seed
        self.image_shape = (*size, channels // num_heads)
        self.head = Head(num_classes, num_heads, seed=seed, name="head")
        self.head.build((None, 1, 1, backbone.output_shape[-1]))
        self.trackers = {}
        self.built = True

    @property
    def num_members(self):
        return self.num_heads

    def adapt(self, images, num_images=5000):
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

    def normalize(self, images):
        """Raw pixels as the backbone takes them."""
        images = tf.cast(images, tf.float32)
        if self.mean is not None:
            images = images - tf.constant(self.mean, tf.float32)
        if self.stddev is not None:
            images = images / tf.constant(self.stddev, tf.float32)
        return images

    @property
    def last_layer(self):
        return self.head

    def features(self, inputs, training=False):
        inputs = stack_inputs(self.normalize(inputs), self.num_heads)
        return self.backbone(inputs, training=training)

    def call(self, images, training=False):
        logits = self.head(self.features(images, training)[:, None, None, :])
        return self.heads_first(logits[:, :, 0, :])

    def heads_first(self, logits):
        """`[batch, heads, classes]` as the public shape: `[batch, classes]`, MIMO heads first."""
        return logits[:, 0] if self.num_heads == 1 else tf.transpose(logits, [1, 0, 2])

    def rows(self, tensor):
        """Each head of each example as a row of its own: the inverse of `heads_first`."""
        if self.num_heads == 1:
            return tensor
        return tf.reshape(tf.transpose(tensor, [1, 0, 2]), [-1, self.num_classes])

    def member_logits(self, images):
        logits = self(images, training=False)
        return logits if self.num_heads > 1 else logits[None]

    def predict_step(self, data):
        logits = super().predict_step(data)
        return logits if self.num_heads == 1 else tf.transpose(logits, [1, 0, 2])

    def compile(self, optimizer="sgd", loss=None, metrics=None, **kwargs):
        """Keras' `compile` with the right defaults: cross-entropy from logits, and accuracy."""
        if loss is None:
            loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        metrics = ["accuracy"] if metrics is None else metrics
        super().compile(optimizer=optimizer, loss=loss, metrics=metrics, **kwargs)

    def compile_from_config(self, config):
        """So that a model that Keras loads is compiled again, although `compile` is our own."""
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def fit(self, x=None, y=None, **kwargs):
        """Keras' `fit`; bad images and labels raise a `ValueError` that says what is wrong.

        A backbone with a stem that is not fitted is adapted to the first images.
        """
        if isinstance(x, tf.data.Dataset):
            kwargs.setdefault("shuffle", False)  # the order is the pipeline's
        if isinstance(kwargs.get("validation_data"), tf.data.Dataset):
            kwargs["validation_data"] = checked(kwargs["validation_data"], None, self._check)
        with clear_errors():
            x = checked(x, y, self._check_training)
            if isinstance(x, (tf.data.Dataset, np.ndarray, tf.Tensor)):
                self.adapt(x)
            self.check_fitted()
            return super().fit(x, y, **kwargs)

    def evaluate(self, x=None, y=None, **kwargs):
        """Keras' `evaluate`, with the checks of `fit`."""
        with clear_errors():
            return super().evaluate(checked(x, y, self._check), y, **kwargs)

    def _check_training(self, images, targets):
        self._check(images, targets)

    def _check(self, images, labels):
        check_images(images, self.image_shape, self.num_heads)
        labels = labels["labels"] if isinstance(labels, dict) else labels
        if labels is not None:
            check_labels(labels, self.num_classes, self.num_heads)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = self.num_heads * super().compute_loss(
            x, *self.label_rows(y, y_pred, sample_weight), training=training
        )
        return loss + self.decay() if training else loss

    def label_rows(self, y, logits, sample_weight):
        """Labels, logits and sample weights with one row for each head of each example.

        One label for all heads is repeated.
        """
        y = y["labels"] if isinstance(y, dict) else y
        labels = tf.reshape(y, [-1])
        if self.num_heads > 1 and (y.shape.rank == 1 or y.shape[-1] == 1):
            labels = tf.repeat(labels, self.num_heads)
        if sample_weight is not None:
            sample_weight = tf.repeat(tf.reshape(sample_weight, [-1]), self.num_heads)
        return labels, self.rows(logits), sample_weight

    def decay(self):
        """This replica's share of the L2 penalty whose gradient is `weight_decay * w`."""
        if not self.weight_decay:
            return 0.0
        squares = tf.add_n([tf.nn.l2_loss(tf.convert_to_tensor(w)) for w in self.trainable_weights])
        return self.weight_decay * squares / replicas()

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        return super().compute_metrics(x, *self.label_rows(y, y_pred, sample_weight))

    def track(self, name, loss, rows):
        """Logs a part of the loss, which Keras has scaled for its share of the global batch.

        A smaller last batch counts by its rows, as in the loss that Keras logs.
        """
        self.trackers[name].update_state(loss * replicas(), sample_weight=tf.shape(rows)[0])

    def get_config(self):
        return {
            **super().get_config(),
            "backbone": keras.saving.serialize_keras_object(self.backbone),
            "num_classes": self.num_classes,
            "mean": self.mean,
            "stddev": self.stddev,
            "weight_decay": self.weight_decay,
            "num_heads": self.num_heads,
            "seed": self.seed,
        }

    @classmethod
    def from_config(cls, config):
        config = {key: keras.saving.deserialize_keras_object(config[key]) for key in config}
        return cls(**config)


def pixel_statistics(name, values, channels):
    """One number for each channel, or `None`."""
    if values is None:
        return None
    values = tuple(float(value) for value in np.atleast_1d(values))
    if len(values) != channels or (name == "stddev" and not min(values) > 0):
        positive = "positive " if name == "stddev" else ""
        raise ValueError(
            f"{name} must be one {positive}number for each of {channels} channels, received "
            f"{values}."
        )
    return values


def replicas():
    """Number of replicas that share the global batch."""
    return tf.distribute.get_strategy().num_replicas_in_sync
