"""Where datasets are read from, and where prepared copies may be written."""

import os
import pathlib


class MissingDataError(FileNotFoundError):
    """A dataset or split that is not on this machine; the message says how to get it."""


def resolve_data_dir(data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """The dataset folder: `data_dir`, else TFDS_DATA_DIR, else the default of TFDS.

    Example:

    >>> data.resolve_data_dir("datasets").name
    'datasets'
    """
    chosen = data_dir or os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets"
    return pathlib.Path(chosen).expanduser().absolute()


def cache_dir() -> pathlib.Path:
    """Where results and copies of read-only data are kept.

    S2D_CACHE_DIR, else `s2d_tf` in XDG_CACHE_HOME, else ~/.cache/s2d_tf.
    """
    home = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    chosen = os.environ.get("S2D_CACHE_DIR") or os.path.join(home, "s2d_tf")
    return pathlib.Path(chosen).expanduser().absolute()


def is_writable(folder: pathlib.Path) -> bool:
    """Whether files can be created in `folder`, or in the nearest existing folder above it.

    A folder without any write bit is left alone even when the user (root) could write to it.
    """
    while not folder.exists():
        folder = folder.parent
    return bool(folder.stat().st_mode & 0o222) and os.access(folder, os.W_OK)
