"""The model zoo: every architecture, method and dataset by name, some with trained weights."""

from s2d_tf.storage.entries import ZooError
from s2d_tf.storage.sources import pretrained_directory as directory
from s2d_tf.zoo.entries import Entry, build, entry, listing, load, names

__all__ = ["Entry", "ZooError", "build", "directory", "entry", "listing", "load", "names"]
