"""What stops a run from outside, in one line that says what is left and what to do."""

import contextlib
import re

import tensorflow as tf

from s2d_tf import files
from s2d_tf.storage import checkpoints
from s2d_tf.storage.runs import RunError
from s2d_tf.training import multi_worker


class DiskFullError(RunError):
    """There is no room to write; what was written before is whole."""


@contextlib.contextmanager
def explained(run):
    """Turns a full disk and a lost worker into errors that a person understands."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        if files.is_disk_full(error):
            raise DiskFullError(
                f"No room to write in {run.directory} ({_cause(error)}); {kept(run)}: free some "
                "space, then the same command continues."
            ) from error
        if multi_worker.is_lost_peer(error):
            raise multi_worker.WorkerLostError(
                f"Another worker is gone ({_cause(error)}); {kept(run)}: start all workers again, "
                "with the same command."
            ) from error
        raise


def kept(run):
    """What the run can be continued from."""
    step = checkpoints.newest(run.directory / "checkpoints")
    return (
        "there is no checkpoint yet" if step is None else f"the checkpoint of step {step} is whole"
    )


def _cause(error):
    text = getattr(error, "strerror", None) or str(getattr(error, "message", error))
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "aborted by" in line or "No space" in line]
    line = (told or lines or [type(error).__name__])[0]
    return re.sub(r"\{\{.*?\}\} *|.*aborted by: *", "", line)[:200].strip(" :")
