"""What a run does at the end of each epoch: log, checkpoint, snapshots, SWAG moments."""

import csv
import io
import math

import keras
import numpy as np

from s2d_tf.training import checkpoints, files, weights


class NonFiniteLossError(RuntimeError):
    """Training produced NaN or infinity; the last good checkpoint is kept."""


class RunLog(keras.callbacks.Callback):
    """Keeps the history, as a CSV file that grows by a row each epoch."""

    def __init__(self, path, history):
        super().__init__()
        self.path = path
        self.history = history

    def on_epoch_end(self, epoch, logs=None):
        bad = [name for name, value in logs.items() if not math.isfinite(value)]
        if bad:
            raise NonFiniteLossError(
                f"epoch {epoch + 1}: {', '.join(bad)} became NaN or infinite; the last good "
                "checkpoint is kept: lower the learning rate or the student weight."
            )
        rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self.history.append(
            {"epoch": epoch + 1, "learning_rate": rate}
            | {name: float(value) for name, value in logs.items()}
        )
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(self.history[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(self.history)
        files.write_text(self.path, text.getvalue())


class Checkpoint(keras.callbacks.Callback):
    """Saves all that a run needs to go on, at the end of each epoch."""

    def __init__(self, directory, variables, facts):
        super().__init__()
        self.directory = directory
        self.variables = variables
        self.facts = facts

    def on_epoch_end(self, epoch, logs=None):
        facts = {**self.facts(), "epoch": epoch + 1}
        checkpoints.save(
            self.directory, int(self.model.optimizer.iterations), self.variables(), facts
        )


class Snapshot(keras.callbacks.Callback):
    """Keeps the weights after the epochs that other recipes start from."""

    def __init__(self, paths):
        super().__init__()
        self.paths = paths

    def on_epoch_end(self, epoch, logs=None):
        path = self.paths.get(epoch + 1)
        if path is not None:
            save_weights(self.model, path)


class WeightMoments(keras.callbacks.Callback):
    """Running mean and mean square of the weights over epochs, for SWAG."""

    def __init__(self, variables):
        super().__init__()
        self.count = keras.Variable(0, trainable=False, dtype="int32", name="swag_count")
        self.mean = [_zeros_like(v, "swag_mean") for v in variables]
        self.square = [_zeros_like(v, "swag_square") for v in variables]

    @property
    def variables(self):
        return [self.count, *self.mean, *self.square]

    def on_epoch_end(self, epoch, logs=None):
        self.count.assign(self.count + 1)
        count = int(self.count)
        for variable, mean, square in zip(
            self.model.trainable_variables, self.mean, self.square, strict=True
        ):
            value = variable.numpy().astype(np.float64)
            mean.assign(mean.numpy() + (value - mean.numpy()) / count)
            square.assign(square.numpy() + (value**2 - square.numpy()) / count)


def _zeros_like(variable, name):
    # float64: the variance is a small difference of two means
    return keras.Variable(np.zeros(variable.shape), trainable=False, dtype="float64", name=name)


def save_weights(model, path):
    """Writes a weights file, whole or not at all."""
    weights.save(model, path)
