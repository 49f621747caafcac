"""One process at a time."""

from __future__ import annotations

import contextlib
import os
import pathlib
import socket
from collections.abc import Iterator

from s2d_tf._types import PathLike

try:
    import fcntl
except ImportError:  # not a Unix system: nothing is locked there
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def locked(path: PathLike, error: type[Exception] = RuntimeError) -> Iterator[None]:
    """Holds a lock file for this process; the system releases it when the process ends.

    Args:
        path: the lock file, in the folder that it protects.
        error: class of the error to raise if another process holds it.

    Example:

    >>> with files.locked("run.lock"):
    ...     files.write_text("note.txt", "no other process writes here now")
    """
    with open(path, "a+", encoding="utf-8") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder, folder = file.read().strip() or "another process", pathlib.Path(path).parent
            raise error(
                f"{folder}: expected a folder that no other process uses, received one in use by "
                f"{holder}. Wait for it, or choose another folder."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
