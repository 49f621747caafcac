"""Connections that cannot be held open for free.

uvicorn closes a connection that is idle after an answer. It waits forever for one that never sends,
or never takes its answer, and accepts as many as the system allows.
"""

from __future__ import annotations

import functools
import logging
from typing import TYPE_CHECKING, Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from s2d_tf.serving.limits import Limits

try:
    import resource
except ImportError:  # not a Unix system: files are not counted there
    resource = None  # type: ignore[assignment]

BACKLOG = 128
"""Connections that are accepted before the first of them is looked at."""
RESERVED_FILES = 64
"""For the model, the log, the event loop and what Python opens."""

_LOG = logging.getLogger("s2d_tf.serving")
_ANSWER = "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: 0\r\n{}\r\n"


class Connection(H11Protocol):
    """uvicorn's, with a deadline for each head and each stalled answer, and counted.

    Args:
        limits: `Limits`.
        **kwargs: uvicorn's own.
    """

    def __init__(self, *, limits: Limits, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._limits = limits
        self._most = most_connections(limits)
        self._deadline = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._most:
            _LOG.warning("more than %d connections: new ones are closed", self._most)
            self._close("503 Service Unavailable", "Retry-After: 1\r\n")
        else:
            self._within(self._limits.header_seconds, self._late)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answered = self.cycle is not None and self.cycle.response_complete
        if self.conn.their_state is h11.IDLE or answered:
            # The begin of another request, or a body that nobody waits for any more.
            if self._deadline is None:
                self._within(self._limits.header_seconds, self._late)
        else:
            self._in_time()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._within(self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._in_time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def _within(self, seconds, then):
        self._in_time()
        self._deadline = self.loop.call_later(seconds, then)

    def _in_time(self):
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _late(self):
        self._close("408 Request Timeout")

    def _close(self, status, header=""):
        if not self.transport.is_closing():
            self.transport.write(_ANSWER.format(status, header).encode())
            self.transport.close()


def make_server(app: Any, limits: Limits) -> uvicorn.Server:
    """uvicorn for an application, with these connections; its log is the process's own."""
    return uvicorn.Server(
        uvicorn.Config(
            app,
            http=functools.partial(Connection, limits=limits),
            ws="none",  # It would be another kind of connection, without limits.
            backlog=BACKLOG,
            log_config=None,
            access_log=False,
            timeout_keep_alive=30,
            timeout_graceful_shutdown=10,
        )
    )


def most_connections(limits: Limits) -> int:
    """As many as the limits and the system allow."""
    if resource is None:
        return limits.connections
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, files - BACKLOG - RESERVED_FILES))
