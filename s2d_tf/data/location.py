"""Where datasets are read from, and where prepared copies may be written."""

import os
import pathlib
import stat


class MissingDataError(FileNotFoundError):
    """A dataset or split that is not on this machine; the message says how to get it."""


def resolve_data_dir(data_dir: str | os.PathLike | None = None) -> pathlib.Path:
    """The folder of the datasets: `data_dir`, else TFDS_DATA_DIR, else the default of TFDS."""
    chosen = data_dir or os.environ.get("TFDS_DATA_DIR")
    if chosen:
        return pathlib.Path(chosen).expanduser().absolute()
    return pathlib.Path.home() / "tensorflow_datasets"


def manual_dir(data_dir: pathlib.Path) -> pathlib.Path:
    """The folder in which TFDS looks for archives that were put there by hand."""
    return data_dir / "downloads" / "manual"


def cache_dir() -> pathlib.Path:
    """Where copies of read-only data are prepared: S2D_CACHE_DIR, else ~/.cache/s2d_tf."""
    chosen = os.environ.get("S2D_CACHE_DIR")
    return pathlib.Path(chosen or "~/.cache/s2d_tf").expanduser().absolute()


def is_writable(folder: pathlib.Path) -> bool:
    """Whether new files may be made in `folder`, or in the nearest existing folder above it.

    A folder without any write bit is left alone even when the user (root) could write to it.
    """
    while not folder.exists():
        folder = folder.parent
    any_write_bit = folder.stat().st_mode & (stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH)
    return bool(any_write_bit) and os.access(folder, os.W_OK)
