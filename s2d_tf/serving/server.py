"""Runs the application on uvicorn."""

from __future__ import annotations

import contextlib
import pathlib
import socket
from collections.abc import Callable
from typing import Any

from s2d_tf._types import PathLike
from s2d_tf.serving.limits import Limits
from s2d_tf.serving.monitoring import configure_logs
from s2d_tf.serving.servable import Servables


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
        log_level: one of `monitoring.LOG_LEVELS`; "info" adds a line for each request. The log goes to the
            standard error, as one JSON object on each line.
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
    try:
        from s2d_tf.serving.app import create_app
        from s2d_tf.serving.connections import make_server
    except ImportError as error:
        raise ImportError(
            f"s2d serve: expected FastAPI, uvicorn and prometheus_client, received {error}. Run "
            "`pip install 's2d_tf[serve]'`."
        ) from None
    name = name or pathlib.Path(directory).expanduser().resolve().name
    if not name or set(name) & set("/:?#%"):
        raise ValueError(
            f"name: expected text without / : ? # or %, received {name!r}. Choose another name."
        )
    limits = limits or Limits()
    with contextlib.closing(listen(host, port)) as listener:
        configure_logs(log_level)
        servables = Servables(directory, trust=trust)
        server = make_server(create_app(name, servables, limits), limits)
        servables.watch()
        host, port = listener.getsockname()[:2]
        host = f"[{host}]" if ":" in host else host
        announce(
            f"Serving {name}, version {servables.current.version}, at "
            f"http://{host}:{port}/v1/models/{name} (stop with Ctrl-C)"
        )
        try:
            server.run(sockets=[listener])
        finally:
            servables.stop()


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
