"""Requests to stop: SIGTERM or Ctrl-C ends a run after the current step and saves it."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any, Self

from s2d_tf.errors import UserError


class Preempted(UserError):
    """Training stopped before its end; the same call continues it."""

    exit_code = 75  # of `s2d`: EX_TEMPFAIL


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
        """While training steps run, which look at `signal` themselves."""
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
