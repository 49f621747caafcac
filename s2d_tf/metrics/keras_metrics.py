"""Calibration while `fit` runs.

For the log-likelihood use Keras' own `SparseCategoricalCrossentropy`.
"""

from __future__ import annotations

from typing import Any

import s2d_tf._backend  # noqa: F401
from s2d_tf._types import Tensor, TensorLike

# isort: split
import keras
import numpy as np
from keras import ops

from s2d_tf.metrics import checks


@keras.saving.register_keras_serializable(package="s2d_tf")
class ExpectedCalibrationError(keras.metrics.Metric):
    """Streaming top-label calibration error over equal-width bins `(lo, hi]`.

    Keeps the sum of (confidence - correct) of each bin and the total weight, so the result is that
    of the whole epoch, not a mean over batches, and adds up over replicas.

    Args:
        num_bins: number of equal-width bins.
        from_logits: whether predictions are logits; log-concentrations of a Dirichlet count as
            logits.
        name: name in the logs.
        dtype: float type of the sums.

    Example:

    >>> metric = metrics.ExpectedCalibrationError(num_bins=15)
    >>> metric.update_state([0, 0], [[0.9, 0.1], [0.7, 0.3]])
    >>> round(float(metric.result()), 3)
    0.2
    """

    def __init__(
        self, num_bins: int = 15, from_logits: bool = False, name: str = "ece", dtype: Any = None
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.num_bins = checks.as_positive_int(num_bins, "num_bins")
        self.from_logits = from_logits
        self.gaps = self.add_variable((self.num_bins,), "zeros", dtype=self.dtype, name="gaps")
        self.total_weight = self.add_variable((), "zeros", dtype=self.dtype, name="total_weight")

    def update_state(
        self, y_true: TensorLike, y_pred: TensorLike, sample_weight: TensorLike | None = None
    ) -> None:
        """Adds a batch: integer labels `[...]` or `[..., 1]`, predictions `[..., classes]`."""
        probs = ops.cast(y_pred, self.dtype)
        if self.from_logits:
            probs = ops.softmax(probs, axis=-1)
        probs = ops.reshape(probs, (-1, ops.shape(probs)[-1]))
        confidence = ops.max(probs, axis=-1)
        labels = ops.reshape(ops.cast(y_true, "int32"), (-1,))
        correct = ops.cast(ops.equal(ops.argmax(probs, axis=-1), labels), self.dtype)
        weight = ops.ones_like(confidence)
        if sample_weight is not None:
            weight = _weight_per_row(ops.cast(sample_weight, self.dtype), confidence)
        inner_edges = np.linspace(0.0, 1.0, self.num_bins + 1)[1:-1]
        index = ops.searchsorted(ops.cast(inner_edges, self.dtype), confidence, side="left")
        in_bin = ops.one_hot(index, self.num_bins, dtype=self.dtype)
        self.gaps.assign_add(ops.sum(in_bin * (weight * (confidence - correct))[:, None], axis=0))
        self.total_weight.assign_add(ops.sum(weight))

    def result(self) -> Tensor:
        """The calibration error of all that was added since the last reset; 0 before anything."""
        return ops.divide_no_nan(ops.sum(ops.abs(self.gaps)), self.total_weight)

    def get_config(self) -> dict[str, Any]:
        """The init arguments."""
        return {
            **super().get_config(),
            "num_bins": self.num_bins,
            "from_logits": self.from_logits,
        }


def _weight_per_row(sample_weight, rows):
    """Repeats weights `[batch]` for predictions `[batch, heads, classes]` that were flattened."""
    weight = ops.reshape(sample_weight, (-1, 1))
    repeats = ops.shape(rows)[0] // ops.maximum(ops.shape(weight)[0], 1)
    return ops.reshape(weight * ops.ones((1, repeats), dtype=weight.dtype), (-1,))
