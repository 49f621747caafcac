"""A teacher temperature that nobody chooses: it follows the calibration of held-out examples."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from s2d_tf import metrics
from s2d_tf._types import Data
from s2d_tf.models import feeding
from s2d_tf.models import labels as labels_lib

LOWEST, HIGHEST = 0.2, 5.0
MAX_EXAMPLES, BATCH_SIZE = 2000, 250


class FollowCalibration(keras.callbacks.Callback):
    """Keeps the teacher of an `S2DClassifier` calibrated on held-out examples.

    How much the teacher should be softened depends on how over-confident the network is, and that
    depends on its size and on how long it trains: long training without augmentation needs a
    temperature above 1, a few epochs with augmentation one below. After each epoch the teacher's
    temperature becomes the one that calibrates the network's predictions on the held-out examples
    (it minimizes their negative log-likelihood), so that the student learns from a teacher that is
    as certain as it should be.

    Args:
        held_out: `(inputs, labels)` arrays, or a `tf.data.Dataset` or `PyDataset` of such pairs;
            the first `MAX_EXAMPLES` are used. They must not be trained on.
    """

    def __init__(self, held_out: Data) -> None:
        super().__init__()
        self.held_out = held_out

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        arrays = isinstance(self.held_out, (tuple, list))
        data, labels = self.held_out[:2] if arrays else (self.held_out, None)
        contract, classes = self.model.contract, self.model.num_classes
        self._batches, count = [], 0
        for inputs, targets in feeding.batches(data, contract, BATCH_SIZE, labels):
            targets = np.asarray(targets)
            if labels_lib.are_vectors(targets, classes):
                targets = targets.argmax(axis=-1)
            self._batches.append((inputs, targets.reshape(-1)))
            count += len(targets)
            if count >= MAX_EXAMPLES:
                break

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        probs = [self.model.predict_uncertainty(inputs)["probs"] for inputs, _ in self._batches]
        # In float64 and above 0, so that one hopeless example does not decide.
        log_probs = np.log(np.maximum(np.concatenate(probs).astype(np.float64), 1e-12))
        labels = np.concatenate([labels for _, labels in self._batches])
        found = metrics.fit_temperature(log_probs, labels)
        self.model.teacher_temperature.assign(np.clip(found, LOWEST, HIGHEST))
        if logs is not None:
            logs["temperature"] = float(self.model.teacher_temperature)
