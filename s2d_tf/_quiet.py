"""Keeps TensorFlow's start-up messages off the terminal of the command `s2d`.

The library leaves a process's environment and streams to the process's owner; this is for the
command, which owns its process, and for the tests.
"""

import functools
import importlib.util
import os
import re
import sys
import tempfile
from typing import Any

# Written before TensorFlow starts its log, hence whatever TF_CPP_MIN_LOG_LEVEL says: information,
# and the message that a machine without a GPU has no driver for one.
_NOISE = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\)"
    r"|[IW]\d{4} \d\d:\d\d:\S+ +\d+ \S+:\d+\]"
    r"|E\d{4} \d\d:\d\d:\S+ +\d+ cuda\S+:\d+\] (failed call to cuInit|Could not find cuda)"
)


def tensorflow() -> None:
    """Makes the first import of TensorFlow quiet, whoever does it and when.

    An import hook, since commands import TensorFlow only after they have checked their arguments.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    wanted = os.environ["TF_CPP_MIN_LOG_LEVEL"] >= "2" and sys.stderr is not None
    if wanted and "tensorflow" not in sys.modules and _Finder not in sys.meta_path:
        sys.meta_path.insert(0, _Finder)


class _Finder:
    """Lends the import of `tensorflow` a filter of the standard error."""

    @staticmethod
    def find_spec(fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname == "tensorflow":
            sys.meta_path.remove(_Finder)
            spec = importlib.util.find_spec(fullname)
            if spec is not None and spec.loader is not None:
                execute = functools.partial(_quietly, spec.loader.exec_module)
                spec.loader.exec_module = execute  # type: ignore[method-assign]
            return spec


def _quietly(execute, module):
    """Holds back what is written to file descriptor 2, then writes it again without the noise."""
    saved = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            execute(module)
            # The search for GPUs is where drivers complain. It does not start the runtime: devices
            # can still be set up.
            module.config.list_physical_devices()
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            lines = held.read().decode(errors="replace").splitlines(keepends=True)
            sys.stderr.writelines(line for line in lines if not _NOISE.match(line))
