"""Named datasets and input pipelines.

`names` and `info` answer without TensorFlow; everything else is imported when it is first used.
"""

import importlib

from s2d_tf.data.archives import ArchiveError
from s2d_tf.data.location import MissingDataError, resolve_data_dir
from s2d_tf.data.registry import DatasetInfo, info, names

_LAZY = {
    "available_splits": "loading",
    "eval_pipeline": "pipelines",
    "fetch": "loading",
    "fingerprint": "hashing",
    "load": "loading",
    "load_arrays": "loading",
    "steps_per_epoch": "pipelines",
    "train_pipeline": "pipelines",
    "write_preview": "preview",
}

__all__ = [
    "ArchiveError",
    "DatasetInfo",
    "MissingDataError",
    "available_splits",
    "eval_pipeline",
    "fetch",
    "fingerprint",
    "info",
    "load",
    "load_arrays",
    "names",
    "resolve_data_dir",
    "steps_per_epoch",
    "train_pipeline",
    "write_preview",
]


def __getattr__(name):
    if name in _LAZY:
        value = getattr(importlib.import_module(f"{__name__}.{_LAZY[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted(set(globals()) | set(__all__))
