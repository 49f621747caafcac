"""What a run does beside training: log, checkpoints, snapshots, SWAG moments."""

from __future__ import annotations

import csv
import io
import math
import pathlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import s2d_tf._backend  # noqa: F401

# isort: split
import keras
import numpy as np

from s2d_tf import files, models
from s2d_tf.errors import UserError
from s2d_tf.models.fitting import broken_parts

from . import checkpoints, multi_worker

if TYPE_CHECKING:
    from . import preemption
    from .loop import Settings

LARGEST_LOSS = 100.0
"""A mean label loss in nats that no network has which still learns: guessing one of a million
classes has 14."""


class NonFiniteLossError(UserError):
    """Training produced NaN or infinity; the last good checkpoint is kept."""


class DivergedError(NonFiniteLossError):
    """The loss is a number, but the network has lost what it had learned."""


def _require_finite(
    values: Mapping[str, float], where: str, writer: checkpoints.Writer | None = None
) -> None:
    """Raises `NonFiniteLossError` that names the parts of the loss which are not numbers."""
    parts = broken_parts(values)
    if parts:
        what = f"expected numbers, received NaN or infinity in {parts}"
        raise NonFiniteLossError(_stopped(where, what, writer))


def _require_learning(
    values: Mapping[str, float],
    num_classes: int,
    where: str,
    writer: checkpoints.Writer | None = None,
) -> None:
    """Raises `DivergedError` where the label loss, a mean over the epoch so far, has exploded.

    Args:
        values: Keras' logs. S2D's label loss is its `teacher_loss`.
        num_classes: guessing has a loss of `ln(num_classes)`.
        where, writer: as for `_require_finite`.
    """
    name = "teacher_loss" if "teacher_loss" in values else "loss"
    guessing = math.log(num_classes)
    if values[name] > LARGEST_LOSS:
        what = (
            f"expected a {name} near the {guessing:.2g} of guessing or below, received "
            f"{values[name]:.4g} (training diverged)"
        )
        raise DivergedError(_stopped(where, what, writer))


def _stopped(where, what, writer):
    step = writer and writer.newest()
    kept = f"The checkpoint of step {step} is kept" if step else "There is no checkpoint yet"
    return (
        f"{where}: {what}. {kept}: try a lower learning rate or student weight with another "
        "--workdir."
    )


class Progress(keras.callbacks.ProgbarLogger):
    """Keras' progress bar, which counts the epochs of the whole run and not those of one `fit`."""

    def __init__(self, epochs: int) -> None:
        super().__init__()
        self._all_epochs = epochs

    def set_params(self, params: dict[str, Any]) -> None:
        super().set_params({**params, "epochs": self._all_epochs})


class RunLog(keras.callbacks.Callback):
    """Keeps the history, as a CSV file that grows by a row each epoch."""

    def __init__(self, path: pathlib.Path, history: list[dict]) -> None:
        super().__init__()
        self.path = path
        self.history = history

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        rate = float(keras.ops.convert_to_numpy(self.model.optimizer.learning_rate))
        self.history.append(
            {"epoch": epoch + 1, "learning_rate": rate}
            | {name: float(value) for name, value in (logs or {}).items()}
        )
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=list(self.history[0]), extrasaction="ignore")
        writer.writeheader()
        writer.writerows(self.history)
        files.write_text(self.path, text.getvalue())


class Checkpoint(keras.callbacks.Callback):
    """Saves all that a run needs to resume; stops it on request or when the loss is not finite.

    It saves at the end of each epoch, and within epochs every so many seconds and steps. A run that
    continues within an epoch gets back what its metrics had summed up, so that its history is that
    of a run that was never stopped.

    Args:
        writer: `checkpoints.Writer`.
        variables: the variables of the run's state.
        facts: function that returns the JSON values to keep with them.
        held: where `fit` begins, as the newest checkpoint says: `epoch`, `step_in_epoch` and
            `metrics`, what the metrics had summed up within that epoch.
        steps_per_epoch: steps of a whole epoch.
        settings: `Settings`, which say how often to save within an epoch.
        stop: `preemption.StopRequest`.
        team: who has to agree; see `multi_worker`.
    """

    requires_finite_loss = True  # so that `fit` does not look a second time

    def __init__(
        self,
        writer: checkpoints.Writer,
        variables: list[keras.Variable],
        facts: Callable[[], dict[str, Any]],
        held: dict[str, Any],
        steps_per_epoch: int,
        settings: Settings,
        stop: preemption.StopRequest,
        team: multi_worker.Alone | multi_worker.Team,
    ) -> None:
        super().__init__()
        self.writer = writer
        self.variables = variables
        self.facts = facts
        self.held = held
        self.steps_per_epoch = steps_per_epoch
        self.settings = settings
        self.stop = stop
        self.team = team
        self._saved_at = time.monotonic()
        self._stopping = False
        self._epoch = self._first = 0

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._epoch = epoch
        self._first = self.held["step_in_epoch"] if epoch == self.held["epoch"] else 0
        if self._first:
            variables, sums = self.model.metrics_variables, self.held["metrics"]
            if [tuple(v.shape) for v in variables] != [value.shape for value in sums]:
                raise checkpoints.CheckpointError(
                    f"checkpoint within epoch {epoch + 1}: expected {len(variables)} sums of "
                    f"metrics, received {len(sums)}. It is of another release: remove it to "
                    "continue from the one before."
                )
            for variable, value in zip(variables, sums, strict=True):
                variable.assign(value)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        step = self._first + batch + 1
        self.writer.check()
        logs, where = logs or {}, f"epoch {self._epoch + 1}, step {step}"
        _require_finite(logs, where, self.writer)
        if not isinstance(self.model, models.Student):  # a student's loss has no such scale
            _require_learning(logs, self.model.num_classes, where, self.writer)
        decision = self.team.agree(self._vote(step))
        self._stopping |= decision >= multi_worker.STOP
        if decision and step < self.steps_per_epoch:  # else the end of the epoch follows, and saves
            self._save(self._epoch, step)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._save(epoch + 1, 0)

    def _vote(self, step):
        if self.stop.signal is not None:
            return multi_worker.STOP
        if not self.team.is_chief:
            return 0
        seconds, steps = self.settings.checkpoint_seconds, self.settings.checkpoint_steps
        late = seconds is not None and time.monotonic() - self._saved_at >= seconds
        return multi_worker.SAVE * (late or (steps is not None and step % steps == 0))

    def _save(self, epoch, step):
        arrays = checkpoints.collect(self.variables, self.model.metrics_variables if step else ())
        if self.team.is_chief:
            finite = all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")
            where = f"epoch {self._epoch + 1}" + (f", step {step}" if step else "")
            _require_finite({"the weights": 0.0 if finite else math.nan}, where, self.writer)
            facts = {**self.facts(), "epoch": epoch, "step_in_epoch": step}
            self.writer.write(int(self.model.optimizer.iterations.numpy()), arrays, facts)
        self._saved_at = time.monotonic()
        if self._stopping:
            self.writer.wait()
            place = f"at epoch {self._epoch + 1}, step {step or self.steps_per_epoch}"
            raise self.stop.error(f"{place}, where it is saved")


class WeightMoments(keras.callbacks.Callback):
    """Running mean and mean square of the weights over epochs, for SWAG."""

    def __init__(self, variables: list[keras.Variable]) -> None:
        super().__init__()
        self.count = keras.Variable(0, trainable=False, dtype="int32", name="swag_count")
        self.mean = [_zeros_like(v, "swag_mean") for v in variables]
        self.square = [_zeros_like(v, "swag_square") for v in variables]

    @property
    def variables(self) -> list[keras.Variable]:
        return [self.count, *self.mean, *self.square]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.count.assign(self.count + 1)
        count = int(self.count.numpy())
        for variable, mean, square in zip(
            self.model.trainable_variables, self.mean, self.square, strict=True
        ):
            value = variable.numpy().astype(np.float64)
            mean.assign(mean.numpy() + (value - mean.numpy()) / count)
            square.assign(square.numpy() + (value**2 - square.numpy()) / count)


def _zeros_like(variable, name):
    # float64: the variance is a small difference of two means
    return keras.Variable(np.zeros(variable.shape), trainable=False, dtype="float64", name=name)
