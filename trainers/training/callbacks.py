"""What a run does beside training: progress, log, checkpoints, SWAG moments, stopping early."""

from __future__ import annotations

import contextlib
import csv
import datetime
import io
import math
import pathlib
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Self

import s2d_tf._backend  # noqa: F401

# isort: split
import keras
import numpy as np
import tensorflow as tf

from s2d_tf import files, models
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError

from . import checkpoints, run_setup, strategies

LARGEST_LOSS = 100.0
"""A mean label loss in nats above which a network no longer learns: guessing one of a million
classes has 14."""
FEW_STEPS = 10
"""After so many steps training says how long it will take."""
_PEER_IS_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


class Preempted(UserError):
    """Training stopped before its end; the same call continues it."""

    exit_code = 75  # of `s2d`: EX_TEMPFAIL


class WorkerLostError(Preempted):
    """Another worker of the job died, so that this one cannot go on; start all of them again."""


class DivergedError(UserError):
    """The loss is NaN, infinite or has exploded; the last good checkpoint is kept."""


class Progress(keras.callbacks.ProgbarLogger):
    """Keras' progress bar, or in a file a line for each epoch; both with the time that is left.

    Args:
        epochs: of the whole run, and not of one `fit`.
        steps: of an epoch.
    """

    def __init__(self, epochs: int, steps: int) -> None:
        super().__init__()
        self._all_epochs, self._steps = epochs, steps
        self._begun: Any = None

    def set_params(self, params: dict[str, Any]) -> None:
        super().set_params({**params, "epochs": self._all_epochs})

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        if self.verbose == 1:
            super().on_epoch_begin(epoch, logs)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        super().on_train_batch_end(batch, logs)
        done = int(self.model.optimizer.iterations.numpy())
        # Not from the first step, which is compiled.
        self._begun = self._begun or (done, time.monotonic())
        if done == self._begun[0] + FEW_STEPS and done < self._steps * self._all_epochs:
            end = "\n" * (self.verbose == 1)  # of a line with a bar
            what = f"{self._all_epochs} epochs of {self._steps} steps"
            print(f"{end}{what}{self._left(done)}", flush=True)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        left = self._left(int(self.model.optimizer.iterations.numpy()))
        if self.verbose == 1:
            super().on_epoch_end(epoch, logs)
            print(left[2:], end="\n" * bool(left), flush=True)
        else:
            values = ", ".join(f"{name} {value:.4g}" for name, value in (logs or {}).items())
            print(f"Epoch {epoch + 1}/{self._all_epochs}: {values}{left}", flush=True)

    def _left(self, done):
        """About how long the steps from here on will take; nothing at the end of the run."""
        (first, since), rest = self._begun, self._steps * self._all_epochs - done
        seconds = (time.monotonic() - since) * rest / max(1, done - first)
        return f"; about {datetime.timedelta(seconds=round(seconds))} left" if rest else ""


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
    """Saves all that a run needs to resume; stops it on request or when it diverges.

    It saves at the end of each epoch, and within epochs every so many seconds and steps. A run that
    continues within an epoch gets back what its metrics had summed up, so that its history is that
    of a run that was never stopped.

    Args:
        directory: folder of the run's checkpoints.
        variables: the variables of the run's state.
        facts: function that returns the JSON values to keep with them.
        held: where `fit` begins, as the newest checkpoint says: `epoch`, `step_in_epoch` and
            `metrics`, what the metrics had summed up within that epoch.
        steps_per_epoch: steps of a whole epoch.
        settings: `Settings`, which say how often to save within an epoch.
        stop: `StopRequest`.
        team: who has to agree; see `strategies.team`.
    """

    requires_finite_loss = True  # so that `fit` does not check a second time

    def __init__(
        self,
        directory: pathlib.Path,
        variables: list[keras.Variable],
        facts: Callable[[], dict[str, Any]],
        held: dict[str, Any],
        steps_per_epoch: int,
        settings: run_setup.Settings,
        stop: StopRequest,
        team: strategies.Alone,
    ) -> None:
        super().__init__()
        self.directory = directory
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
            checkpoints.CheckpointError.unless(
                [tuple(v.shape) for v in variables] == [value.shape for value in sums],
                f"checkpoint within epoch {epoch + 1}: expected {len(variables)} sums of "
                f"metrics, received {len(sums)}. It is of another release: remove it to "
                "continue from the one before.",
            )
            for variable, value in zip(variables, sums, strict=True):
                variable.assign(value)

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        step = self._first + batch + 1
        values = {name: float(value) for name, value in (logs or {}).items()}
        label_loss = values.get("teacher_loss", values["loss"])
        # A student's loss has no such scale.
        healthy = isinstance(self.model, models.Student) or label_loss <= LARGEST_LOSS
        self._require(healthy and all(map(math.isfinite, values.values())), step, values)
        decision = self.team.agree(self._vote(step))
        self._stopping |= decision >= strategies.STOP
        if decision and step < self.steps_per_epoch:  # else the end of the epoch follows, and saves
            self._save(self._epoch, step)

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self._save(epoch + 1, 0)

    def _vote(self, step):
        if self.stop.signal is not None:
            return strategies.STOP
        if not self.team.is_chief:
            return 0
        seconds, steps = self.settings.checkpoint_seconds, self.settings.checkpoint_steps
        late = seconds is not None and time.monotonic() - self._saved_at >= seconds
        return strategies.SAVE * (late or (steps is not None and step % steps == 0))

    def _save(self, epoch, step):
        arrays = checkpoints.collect(self.variables, self.model.metrics_variables if step else ())
        if self.team.is_chief:
            finite = all(np.isfinite(a).all() for a in arrays.values() if a.dtype.kind == "f")
            self._require(finite, step or self.steps_per_epoch, "NaN or infinity in the weights")
            facts = {**self.facts(), "epoch": epoch, "step_in_epoch": step}
            step_in_run = int(self.model.optimizer.iterations.numpy())
            checkpoints.write(self.directory, step_in_run, arrays, facts)
        self._saved_at = time.monotonic()
        if self._stopping:
            place = f"at epoch {self._epoch + 1}, step {step or self.steps_per_epoch}"
            raise self.stop.error(f"{place}, where it is saved")

    def _require(self, healthy, step, received):
        """Stops a run that does not learn any more."""
        DivergedError.unless(
            healthy,
            f"epoch {self._epoch + 1}, step {step}: expected finite weights and losses near "
            f"that of guessing or below, received {received} (training diverged). Checkpoints "
            "from before are kept: try a lower learning rate or student weight with another "
            "--workdir.",
        )


class WeightMoments(keras.callbacks.Callback):
    """Running mean and mean square of the weights over epochs, for SWAG."""

    def __init__(self, variables: list[keras.Variable]) -> None:
        super().__init__()
        self.count = keras.Variable(0, trainable=False, dtype="int32", name="swag_count")
        # float64: the variance is a small difference of two means
        self.mean, self.square = (
            [
                keras.Variable(np.zeros(v.shape), trainable=False, dtype="float64", name=name)
                for v in variables
            ]
            for name in ("swag_mean", "swag_square")
        )
        self.variables = [self.count, *self.mean, *self.square]

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        self.count.assign(self.count + 1)
        count = int(self.count.numpy())
        for variable, mean, square in zip(
            self.model.trainable_variables, self.mean, self.square, strict=True
        ):
            value = variable.numpy().astype(np.float64)
            mean.assign(mean.numpy() + (value - mean.numpy()) / count)
            square.assign(square.numpy() + (value**2 - square.numpy()) / count)


class StopRequest:
    """Catches SIGTERM and SIGINT while it is entered.

    Within `deferred()` a first signal only sets `signal`, and training stops at the next step; at
    other times, and at a second signal, it stops at once. That is safe too, because files are
    written whole or not at all, but what was not saved is lost.
    """

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None
        self._deferring = False
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextlib.contextmanager
    def deferred(self) -> Iterator[None]:
        """While training steps run, which check `signal` themselves."""
        self._deferring = True
        try:
            yield
        finally:
            self._deferring = False
        if self.signal is not None:
            raise self.error("after the last step")

    def _receive(self, number, _):
        first = self.signal is None
        self.signal = signal.Signals(number)
        if not (first and self._deferring):
            raise self.error("while no step was running")

    def error(self, where: str) -> BaseException:
        """What to raise when training has stopped."""
        if self.signal is signal.SIGINT:
            return KeyboardInterrupt(f"{where}; the same command continues.")
        name = "another worker's request" if self.signal is None else self.signal.name
        return Preempted(f"stopped by {name} {where}; the same command continues.")


@contextlib.contextmanager
def explained(directory: PathLike) -> Iterator[None]:
    """Turns a full disk and a lost worker into one-line errors that say what to do."""
    try:
        with files.room_for(directory):
            yield
    except _PEER_IS_GONE as error:
        # Without the names of TensorFlow's operations.
        cause = re.sub(r"\{\{.*?\}\} *|.*aborted by: *", "", error.message).strip(" :\n")
        raise WorkerLostError(
            f"workers: expected all of them, received {cause.partition(chr(10))[0][:200]!r} from "
            f"one that is gone. Start all workers again, with the same command: they continue from "
            f"the last checkpoint."
        ) from error
