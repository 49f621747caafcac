"""Labels as class numbers, one-hot vectors or probabilities: their checks, rows and loss."""

from __future__ import annotations

import inspect
from typing import Any

import keras
import tensorflow as tf

from s2d_tf.models.inputs import require

SUM_TOLERANCE = 1e-3
"""How far the probabilities of a soft label may be from a sum of one (float16 rounds so)."""


@keras.saving.register_keras_serializable(package="s2d_tf")
class LabelCrossEntropy(keras.losses.Loss):
    """Cross-entropy from logits with labels of any kind, told apart by their shape.

    Class numbers `[batch]` go through Keras' sparse cross-entropy, one-hot vectors and
    probabilities `[batch, classes]` through its categorical one.
    """

    def __init__(
        self,
        name: str = "label_cross_entropy",
        reduction: str = "sum_over_batch_size",
        **kwargs: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, **kwargs)

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
    found = keras.losses.get(loss) if isinstance(loss, str) else loss
    from_logits = None
    if isinstance(found, keras.losses.Loss):
        from_logits = found.get_config().get("from_logits")
    elif inspect.isfunction(found):
        parameter = inspect.signature(found).parameters.get("from_logits")
        from_logits = parameter and parameter.default
    if from_logits is False:
        raise ValueError(
            f"loss: expected one that takes logits, received {loss!r}, which takes probabilities. "
            "Leave it out for cross-entropy, or pass a keras.losses object with from_logits=True."
        )


def are_vectors(labels: tf.Tensor, num_classes: int, num_heads: int = 1) -> bool:
    """Whether labels are one-hot or soft, `[batch, classes]` or, for MIMO, with a head axis."""
    shape, dtype = tf.TensorShape(labels.shape), tf.as_dtype(labels.dtype)
    if shape.rank == 3:
        return True
    # Whole numbers for several heads are a class number for each.
    for_heads = num_heads > 1 and dtype.is_integer
    return shape.rank == 2 and shape[-1] == num_classes and not for_heads


def check_labels(labels: tf.Tensor, num_classes: int, num_heads: int = 1) -> None:
    """Rejects labels that are neither class numbers nor vectors that sum to one."""
    if are_vectors(labels, num_classes, num_heads):
        _check_vectors(labels, num_classes, num_heads)
        return
    dtype, shape = tf.as_dtype(labels.dtype), tf.TensorShape(labels.shape)
    if not dtype.is_integer:
        raise ValueError(
            f"y: expected integer labels in [0, {num_classes - 1}], or one vector of {num_classes} "
            f"probabilities for each example, received {dtype.name} of shape {shape}. Convert them."
        )
    accepted = [None], [None, 1], [None, num_heads]
    if not any(shape.is_compatible_with(tf.TensorShape(each)) for each in accepted):
        heads = "" if num_heads == 1 else f" or [batch, {num_heads}]"
        raise ValueError(
            f"y: expected labels [batch]{heads} (class numbers) or [batch, {num_classes}] "
            f"(one-hot or probabilities), received the shape {shape}. Reshape them."
        )
    lowest, highest = tf.reduce_min(labels), tf.reduce_max(labels)
    require(
        (lowest >= 0) & (highest < num_classes),
        f"y: expected labels in [0, {num_classes - 1}], received values from",
        lowest,
        "to",
        highest,
        "(remove unlabeled examples, or raise num_classes).",
    )


def _check_vectors(labels, num_classes, num_heads):
    shape = tf.TensorShape(labels.shape)
    accepted = [None, num_classes], [None, num_heads, num_classes]
    if not any(shape.is_compatible_with(tf.TensorShape(each)) for each in accepted):
        raise ValueError(
            f"y: expected label vectors [batch, {num_classes}], received the shape {shape}. "
            "Reshape them."
        )
    values = tf.cast(labels, tf.float32)
    sums = tf.reduce_sum(values, axis=-1)
    lowest, highest = tf.reduce_min(sums), tf.reduce_max(sums)
    require(
        # Written so that NaN fails it.
        (lowest >= 1 - SUM_TOLERANCE)
        & (highest <= 1 + SUM_TOLERANCE)
        & (tf.reduce_min(values) >= 0),
        "y: expected label vectors of numbers of at least 0 that sum to 1, received sums from",
        lowest,
        "to",
        highest,
        "and the lowest number",
        tf.reduce_min(values),
    )


def rows(
    labels: tf.Tensor, sample_weight: tf.Tensor | None, num_classes: int, num_heads: int
) -> tuple[tf.Tensor, tf.Tensor | None]:
    """Labels and sample weights with one row for each head of each example.

    One label for all heads is repeated.
    """
    vectors = are_vectors(labels, num_classes, num_heads)
    one_for_all = num_heads > 1 and (
        len(labels.shape) == (2 if vectors else 1) or labels.shape[-1] == 1
    )
    labels = tf.reshape(labels, [-1, num_classes] if vectors else [-1])
    if one_for_all:
        labels = tf.repeat(labels, num_heads, axis=0)
    if sample_weight is not None:
        sample_weight = tf.repeat(tf.reshape(sample_weight, [-1]), num_heads)
    return labels, sample_weight
