"""What stops a run from outside, in one line that says what is left and what to do."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import tensorflow as tf

from s2d_tf import files
from s2d_tf.zoo import layout
from s2d_tf.zoo.runs import RunError

from . import checkpoints, multi_worker

if TYPE_CHECKING:
    from s2d_tf.zoo.runs import Run

_PEER_IS_GONE = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.CancelledError)


class DiskFullError(RunError):
    """There is no room to write; what was written before is whole."""


@contextlib.contextmanager
def explained(run: Run) -> Iterator[None]:
    """Turns a full disk and a lost worker into errors that a person understands."""
    try:
        yield
    except (OSError, tf.errors.OpError) as error:
        step = checkpoints.newest(run.directory / layout.CHECKPOINTS)
        kept = f"The checkpoint of step {step} is whole" if step else "There is no checkpoint yet"
        if files.is_disk_full(error):
            raise DiskFullError(
                f"{run.directory}: expected room to write, received {_cause(error)!r}. {kept}: "
                "free some space, then run the same command again."
            ) from error
        if isinstance(error, _PEER_IS_GONE):
            raise multi_worker.WorkerLostError(
                f"workers: expected all of them, received {_cause(error)!r} from one that is "
                f"gone. {kept}: start all workers again, with the same command."
            ) from error
        raise


def _cause(error):
    """The first line that says something, without the names of TensorFlow's operations."""
    text = getattr(error, "strerror", None) or str(getattr(error, "message", error))
    text = re.sub(r"\{\{.*?\}\} *|.*aborted by: *", "", text)
    return text.strip(" :\n").partition("\n")[0][:200]
