"""Where a run computes."""

import sys

import tensorflow as tf

STRATEGIES = ("auto", "one_device", "mirrored")


def make(name="auto"):
    """A `tf.distribute` strategy by name.

    "auto" mirrors over all GPUs of the machine, or uses its one device; "mirrored" takes all GPUs,
    or all logical CPU devices where there is none.
    """
    gpus = tf.config.list_logical_devices("GPU")
    if name == "one_device" or (name == "auto" and len(gpus) < 2):
        return tf.distribute.get_strategy()
    if name in ("auto", "mirrored"):
        devices = gpus or tf.config.list_logical_devices("CPU")
        return tf.distribute.MirroredStrategy([device.name for device in devices])
    raise ValueError(f"strategy must be one of {STRATEGIES}, received {name!r}.")


def check_batch_size(batch_size, strategy):
    """Refuses a global batch that the replicas cannot share equally."""
    replicas = strategy.num_replicas_in_sync
    if batch_size % replicas:
        raise ValueError(
            f"The global batch of {batch_size} cannot be shared by {replicas} replicas: choose a "
            f"batch size that {replicas} divides, or fewer devices."
        )


def choose_jit(wanted, strategy):
    """Whether XLA compiles the training step: what is wanted, else what Keras chooses.

    Keras leaves XLA off on CPU, where oneDNN's kernels are faster, and on several replicas, where
    it is not safe.
    """
    if wanted is not None:
        return wanted
    return "auto" if strategy.num_replicas_in_sync == 1 else False


def verbosity(wanted=None):
    """Keras' `verbose`: a bar on a terminal, a line an epoch elsewhere."""
    if wanted is not None:
        return wanted
    return 1 if sys.stdout.isatty() else 2
