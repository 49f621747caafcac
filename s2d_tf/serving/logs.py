"""Logs as JSON, one line for each event, that a hostile client cannot fill a disk with."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any

LEVELS = ("debug", "info", "warning", "error")
SECONDS = 10.0
"""How long a warning is not repeated."""
MAX_MESSAGES = 1000


def configure(level: str) -> None:
    """Lets the loggers of the server write JSON lines to the standard error.

    Not by `logging.config`, which closes the handlers of all other loggers.
    """
    handler = StderrHandler()
    handler.setFormatter(JSONFormatter())
    handler.addFilter(Seldom())
    for name in ("s2d_tf.serving", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


class StderrHandler(logging.StreamHandler):
    """Writes to what `sys.stderr` is at that moment, and not to what it was at the start."""

    def __init__(self) -> None:
        super().__init__(sys.stderr)

    @property
    def stream(self) -> Any:
        return sys.stderr

    @stream.setter
    def stream(self, _: Any) -> Any:
        pass


class JSONFormatter(logging.Formatter):
    """A record as one line; `extra={"fields": {...}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{record.msecs:03.0f}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if repeated := getattr(record, "repeated", 0):
            line["repeated"] = repeated
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


class Seldom(logging.Filter):
    """Passes a warning on once in `SECONDS`, with how often it was held back before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen: dict[Any, Any] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno < logging.WARNING:
            return True
        key, now = (record.name, record.getMessage()[:200]), self._clock()
        if len(self._seen) >= MAX_MESSAGES:
            self._seen.clear()
        last, held = self._seen.get(key, (-SECONDS, 0))
        if now - last < SECONDS:
            self._seen[key] = last, held + 1
            return False
        self._seen[key] = now, 0
        record.repeated = held
        return True
