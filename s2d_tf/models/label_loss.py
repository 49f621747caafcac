"""The loss and the accuracy for labels of any kind, and the stop when the loss is NaN."""

from __future__ import annotations

import inspect
import math
from typing import Any

import keras
import tensorflow as tf


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
    found = keras.losses.get(loss)
    is_object = isinstance(found, keras.losses.Loss)
    parameters = {} if is_object else inspect.signature(found).parameters
    options = found.get_config() if is_object else {n: p.default for n, p in parameters.items()}
    if options.get("from_logits") is False:
        raise ValueError(
            f"loss: expected one that takes logits, received {loss!r}, which takes probabilities. "
            "Leave it out for cross-entropy, or pass a keras.losses object with from_logits=True."
        )


class FiniteLoss(keras.callbacks.Callback):
    """Raises a `ValueError` when the loss is NaN or infinite, with the weights from before.

    The logged loss is a mean over the epoch, which stays NaN once it is: looking at it now and then
    does not slow the steps. Weights and optimizer are kept at the start of each epoch.
    """

    EVERY = 10
    """Steps between looks, besides the end of each epoch."""

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        self._variables = [*self.model.variables, *self.model.optimizer.variables]
        self._kept = [keras.ops.convert_to_numpy(variable) for variable in self._variables]

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
        for variable, value in zip(self._variables, self._kept, strict=True):
            variable.assign(value)
        raise ValueError(
            f"loss: expected a number, received NaN or infinity in epoch {self._epoch + 1} (in "
            f"{', '.join(names)}). The weights are those before that epoch. Try a lower learning "
            "rate or student weight."
        )
