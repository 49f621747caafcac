"""Keeps TensorFlow's start-up messages off the terminal of the command `s2d`.

The library leaves a process's environment and streams to the process's owner; this is for the
command, which owns its process, and for the tests.
"""

import contextlib
import importlib.machinery
import importlib.util
import os
import re
import sys
import tempfile

# Written before TensorFlow starts its log, hence whatever TF_CPP_MIN_LOG_LEVEL says: information,
# and the news that a machine without a GPU has no driver for one.
_NOISE = re.compile(
    r"WARNING: All log messages before absl::InitializeLog\(\)"
    r"|[IW]\d{4} \d\d:\d\d:\S+ +\d+ \S+:\d+\]"
    r"|E\d{4} \d\d:\d\d:\S+ +\d+ cuda\S+:\d+\] (failed call to cuInit|Could not find cuda)"
)


@contextlib.contextmanager
def tensorflow():
    """Within it, the first import of TensorFlow is quiet, if there is one."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # errors only
    if "tensorflow" in sys.modules or os.environ["TF_CPP_MIN_LOG_LEVEL"] < "2":
        yield
        return
    finder = _TensorFlowFinder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        if finder in sys.meta_path:
            sys.meta_path.remove(finder)


class _TensorFlowFinder:
    """Lends the import of `tensorflow` a loader that filters the standard error meanwhile."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _QuietLoader(spec.loader.name, spec.loader.path)
        return spec


class _QuietLoader(importlib.machinery.SourceFileLoader):
    def exec_module(self, module):
        with _filtered_stderr():
            super().exec_module(module)
            # The search for GPUs is where drivers complain. It does not start the runtime: devices
            # can still be set up.
            module.config.list_physical_devices()


@contextlib.contextmanager
def _filtered_stderr():
    """Holds back what is written to file descriptor 2, then writes it again without the noise."""
    try:
        sys.stderr.flush()
        saved = os.dup(2)
    except (AttributeError, OSError, ValueError):
        # No standard error (a service, a notebook): nothing to filter.
        yield
        return
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(saved, 2)
            os.close(saved)
            held.seek(0)
            lines = held.read().decode(errors="replace").splitlines(keepends=True)
            sys.stderr.write("".join(line for line in lines if not _NOISE.match(line)))
            sys.stderr.flush()
