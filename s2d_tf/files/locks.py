"""One process at a time."""

import contextlib
import os
import socket

try:
    import fcntl
except ImportError:  # not a Unix system: nothing is locked there
    fcntl = None


class InUseError(OSError):
    """Another process holds a lock; `holder` says which, as far as is known."""

    def __init__(self, path, holder):
        super().__init__(f"{path} is held by {holder}")
        self.holder = holder


@contextlib.contextmanager
def locked(path):
    """Holds a lock file for this process; the system releases it when the process ends."""
    with open(path, "a+", encoding="utf-8") as file:
        try:
            if fcntl is not None:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise InUseError(path, file.read().strip() or "another process") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield
