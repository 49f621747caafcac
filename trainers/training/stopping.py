"""What stops a run before its end: a signal, a full disk, a lost worker. It continues later."""

from __future__ import annotations

import contextlib
import re
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

import tensorflow as tf

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError

_PEER_IS_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


class Preempted(UserError):
    """Training stopped before its end; the same call continues it."""

    exit_code = 75  # of `s2d`: EX_TEMPFAIL


class WorkerLostError(Preempted):
    """Another worker of the job died, so that this one cannot go on; start all of them again."""


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
