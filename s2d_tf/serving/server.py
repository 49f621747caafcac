"""Runs the application on uvicorn, with a log and connections that cannot be held open for free.

uvicorn closes a connection that is idle after an answer. It waits forever for one that never sends,
or never takes its answer, and accepts as many as the system allows.
"""

import datetime
import functools
import json
import logging
import pathlib
import resource
import socket
import sys
from collections.abc import Callable
from typing import Any

from s2d_tf._types import PathLike
from s2d_tf.serving.protocol import Limits
from s2d_tf.serving.servable import Servables

try:
    import h11
    import uvicorn
    from uvicorn.protocols.http.h11_impl import H11Protocol

    from s2d_tf.serving.app import create_app
except ImportError as error:
    raise ImportError(
        f"s2d serve: expected FastAPI, uvicorn and prometheus_client, received {error}. Run "
        "`pip install 's2d_tf[serve]'`."
    ) from None

BACKLOG = 128
"""Connections that are accepted before the first of them is looked at."""
RESERVED_FILES = 64
"""For the model, the log, the event loop and what Python opens."""

_LOG = logging.getLogger("s2d_tf.serving")
_ANSWER = "HTTP/1.1 {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


def serve(
    directory: PathLike,
    host: str = "127.0.0.1",
    port: int = 8501,
    name: str | None = None,
    limits: Limits | None = None,
    announce: Callable[[str], Any] = print,
    log_level: str = "warning",
    trust: bool = False,
) -> None:
    """Serves the newest version in `directory` over TF Serving's REST protocol, until interrupted.

    Args:
        directory: a folder that `export.save` wrote versions into.
        host, port: where to listen; port 0 takes a free one.
        name: the model's name in the addresses; default: the folder's.
        limits: `Limits` on requests; the default ones if `None`.
        announce: function that gets one line of text once the server answers requests.
        log_level: "debug", "info", "warning" or "error"; "info" adds a line for each request. The
            log goes to the standard error, as one JSON object on each line.
        trust: as for `export.load`.

    Raises:
        ImportError: FastAPI, uvicorn or prometheus_client is not installed (the extra
            `s2d_tf[serve]`).
        OSError: the port is in use.
        ValueError: `directory` holds no version that can be loaded, or `name` does not fit into an
            address.

    Example:

    >>> folder = export.save(model, "models/digits")  # doctest: +SKIP
    >>> serving.serve("models/digits", port=8501)  # doctest: +SKIP
    Serving digits, version 1, at http://127.0.0.1:8501/v1/models/digits (stop with Ctrl-C)
    """
    name = name or pathlib.Path(directory).expanduser().resolve().name
    if not name or set(name) & set("/:?#%"):
        raise ValueError(
            f"name: expected text without / : ? # or %, received {name!r}. Choose another name."
        )
    with listen(host, port) as listener:
        configure_logs(log_level)
        servables = Servables(directory, trust=trust)
        server = make_server(create_app(name, servables, limits), limits or Limits())
        host, port = listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        announce(
            f"Serving {name}, version {servables.current.version}, at "
            f"http://{host}:{port}/v1/models/{name} (stop with Ctrl-C)"
        )
        with servables.watching():
            server.run(sockets=[listener])


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, taken before the model is loaded: a port in use is known at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # Who comes before the server is ready waits in the backlog.
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        raise OSError(
            f"port: expected a free one, received {host}:{port} ({error.strerror}). Choose "
            "another --port."
        ) from None


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
        self._deadline: Any = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        if len(self.connections) > self._most:
            _LOG.warning("more than %d connections: new ones are closed", self._most)
            self._close("503 Service Unavailable\r\nRetry-After: 1")
        else:
            self._set_deadline(self._limits.header_seconds, self._close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        answered = self.cycle is not None and self.cycle.response_complete
        if self.conn.their_state is not h11.IDLE and not answered:
            self._set_deadline(None)
        elif self._deadline is None:
            # The start of another request, or a body that nobody waits for any more.
            self._set_deadline(self._limits.header_seconds, self._close)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._set_deadline(self._limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._set_deadline(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._set_deadline(None)
        super().connection_lost(exc)

    def _set_deadline(self, seconds, then=None):
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = None if seconds is None else self.loop.call_later(seconds, then)

    def _close(self, status="408 Request Timeout"):
        if not self.transport.is_closing():
            self.transport.write(_ANSWER.format(status).encode())
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
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if files == resource.RLIM_INFINITY:
        return limits.connections
    return max(1, min(limits.connections, files - BACKLOG - RESERVED_FILES))


def configure_logs(level: str) -> None:
    """Makes the loggers of the server write JSON lines to the standard error.

    Not by `logging.config`, which closes the handlers of all other loggers.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONFormatter())
    for name in ("s2d_tf.serving", "uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level.upper())


class JSONFormatter(logging.Formatter):
    """A record as one line; `extra={"fields": {...}}` adds to it."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.datetime.fromtimestamp(record.created, datetime.UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
