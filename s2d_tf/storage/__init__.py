"""What is on disk: run directories, entries of a zoo, weights and checkpoints."""

from s2d_tf.storage.runs import Run, RunError, summary

__all__ = ["Run", "RunError", "summary"]
