"""What is on disk: run directories, entries of a zoo, weights and checkpoints."""

from s2d_tf.storage.entries import ZooError
from s2d_tf.storage.opening import Opened, open_model, open_run
from s2d_tf.storage.runs import Run, RunError, is_run, summary

__all__ = ["Opened", "Run", "RunError", "ZooError", "is_run", "open_model", "open_run", "summary"]
