"""Labels of every kind: their checks, their loss and accuracy, and the stop when the loss is NaN.

Class numbers `[batch]`, one-hot vectors and probabilities `[batch, classes]` are told apart by
their shape; a MIMO network also takes one label for each head, `[batch, heads, ...]`.
"""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras
import tensorflow as tf

from s2d_tf.models.contract import require

LABEL_SUM_TOLERANCE = 1e-3
"""How far the sum of a soft label may be from one (float16 rounds so)."""


def check_labels(labels: tf.Tensor, num_classes: int, num_heads: int = 1) -> None:
    """Rejects labels that are neither class numbers nor vectors that sum to one."""
    dtype, shape = tf.as_dtype(labels.dtype), tf.TensorShape(labels.shape)
    vectors = _are_vectors(labels, num_classes, num_heads)
    require(
        vectors or dtype.is_integer,
        f"y: expected integer labels in [0, {num_classes - 1}], or one vector of {num_classes} "
        f"probabilities for each example, received {dtype.name} of shape {shape}. Convert them.",
    )
    accepted = (
        ([None, num_classes], [None, num_heads, num_classes])
        if vectors
        else ([None], [None, 1], [None, num_heads])
    )
    heads = "" if num_heads == 1 else f" or [batch, {num_heads}]"
    require(
        any(shape.is_compatible_with(each) for each in accepted),
        f"y: expected labels [batch]{heads} (class numbers) or [batch, {num_classes}] (one-hot or "
        f"probabilities), received the shape {shape}. Reshape them.",
    )
    if not vectors:
        lowest, highest = tf.reduce_min(labels), tf.reduce_max(labels)
        require(
            (lowest >= 0) & (highest < num_classes),
            f"y: expected labels in [0, {num_classes - 1}], received values from",
            lowest,
            "to",
            highest,
            "(remove unlabeled examples, or raise num_classes).",
        )
        return
    values = tf.cast(labels, tf.float32)
    sums, lowest = tf.reduce_sum(values, axis=-1), tf.reduce_min(values)
    require(
        # Written so that NaN fails it.
        tf.reduce_all(tf.abs(sums - 1) <= LABEL_SUM_TOLERANCE) & (lowest >= 0),
        "y: expected label vectors of numbers of at least 0 that sum to 1, received sums from",
        tf.reduce_min(sums),
        "to",
        tf.reduce_max(sums),
        "and the lowest number",
        lowest,
    )


def rows(
    labels: tf.Tensor,
    logits: tf.Tensor,
    sample_weight: tf.Tensor | None,
    num_classes: int,
    num_heads: int,
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor | None]:
    """Labels, logits and sample weights with one row for each head of each example.

    Logits of several heads are `[heads, batch, classes]`. One label for all heads is repeated.
    """
    vectors = _are_vectors(labels, num_classes, num_heads)
    one_for_all = len(labels.shape) == (2 if vectors else 1) or labels.shape[-1] == 1
    labels = tf.reshape(labels, [-1, num_classes] if vectors else [-1])
    if sample_weight is not None:
        sample_weight = tf.repeat(tf.reshape(sample_weight, [-1]), num_heads)
    if num_heads > 1:
        labels = tf.repeat(labels, num_heads, axis=0) if one_for_all else labels
        logits = tf.reshape(tf.transpose(logits, [1, 0, 2]), [-1, num_classes])
    return labels, logits, sample_weight


def _are_vectors(labels: tf.Tensor, num_classes: int, num_heads: int = 1) -> bool:
    """Whether labels are one-hot or soft, `[batch, classes]` or, for MIMO, with a head axis."""
    shape, dtype = tf.TensorShape(labels.shape), tf.as_dtype(labels.dtype)
    if shape.rank == 3:
        return True
    # Whole numbers for several heads are a class number for each.
    for_heads = num_heads > 1 and dtype.is_integer
    return shape.rank == 2 and shape[-1] == num_classes and not for_heads


@keras.saving.register_keras_serializable(package="s2d_tf")
class LabelCrossEntropy(keras.losses.Loss):
    """Cross-entropy from logits with labels of any kind, told apart by their shape.

    Class numbers `[batch]` go through Keras' sparse cross-entropy, one-hot vectors and
    probabilities `[batch, classes]` through its categorical one.
    """

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        function = (
            keras.losses.categorical_crossentropy
            if _same_shape(y_true, y_pred)
            else keras.losses.sparse_categorical_crossentropy
        )
        return function(y_true, y_pred, from_logits=True)


@keras.saving.register_keras_serializable(package="s2d_tf")
class LabelAccuracy(keras.metrics.MeanMetricWrapper):
    """Accuracy with labels of any kind. (Keras' "accuracy" settles on the kind it sees first.)"""

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(_accuracy, name=name, dtype=dtype)

    def get_config(self) -> dict[str, Any]:
        return {"name": self.name, "dtype": self.dtype}


def _accuracy(y_true, y_pred):
    function = (
        keras.metrics.categorical_accuracy
        if _same_shape(y_true, y_pred)
        else keras.metrics.sparse_categorical_accuracy
    )
    return function(y_true, y_pred)


def _same_shape(labels, logits):
    return len(labels.shape) == len(logits.shape) and labels.shape[-1] == logits.shape[-1]


def check_loss(loss: Any) -> None:
    """Rejects a loss that takes probabilities: a model's outputs are logits."""
    found = keras.losses.get(loss)
    is_object = isinstance(found, keras.losses.Loss)
    parameters = {} if is_object else inspect.signature(found).parameters
    options = found.get_config() if is_object else {n: p.default for n, p in parameters.items()}
    require(
        options.get("from_logits") is not False,
        f"loss: expected one that takes logits, received {loss!r}, which takes probabilities. "
        "Leave it out for cross-entropy, or pass a keras.losses object with from_logits=True.",
    )


class FiniteLoss(keras.callbacks.Callback):
    """Raises a `ValueError` when the loss is NaN or infinite, with the weights from before.

    The logged loss is a mean over the epoch, which stays NaN once it is: looking at it now and then
    does not slow the steps. Weights and optimizer are kept at the start of each epoch.
    """

    EVERY = 10
    """Steps between looks, besides the end of each epoch."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        variables = [*self.model.variables, *self.model.optimizer.variables]
        self._kept = [(each, keras.ops.convert_to_numpy(each)) for each in variables]
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        if (batch + 1) % self.EVERY == 0:
            self._check(logs)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._check(logs)

    def _check(self, logs):
        # Any metric may be no number; only the loss tells that the weights are lost.
        if math.isfinite((logs or {}).get("loss", 0.0)):
            return
        names = sorted(name for name, value in logs.items() if not math.isfinite(value))
        for variable, value in self._kept:
            variable.assign(value)
        raise ValueError(
            f"loss: expected a number, received NaN or infinity in epoch {self._epoch + 1} (in "
            f"{', '.join(names)}). The weights are those before that epoch. Try a lower learning "
            "rate or student weight."
        )
