"""Version folders: a new one appears whole or not at all."""

import errno
import itertools
import pathlib
import secrets
import shutil
from collections.abc import Callable

from s2d_tf import files
from s2d_tf._types import PathLike


def versions(directory: PathLike) -> list[int]:
    """Numbers of the version folders in `directory`, ascending.

    Example:

    >>> for number in (1, 2):
    ...     pathlib.Path(f"folder/{number}").mkdir(parents=True)
    >>> export.versions("folder")
    [1, 2]
    """
    # The names that TF Serving takes for numbers; a leading zero would be a second name for one.
    found = (path.name for path in pathlib.Path(directory).glob("*") if path.is_dir())
    return sorted(int(name) for name in found if name.isdecimal() and str(int(name)) == name)


def write_version(directory: PathLike, write: Callable) -> pathlib.Path:
    """Writes the next version.

    A server that watches `directory` sees the version only when it is complete and on disk. If
    `write` fails, nothing is left. Two writers get two versions.

    Args:
        directory: the model's folder.
        write: function that fills the hidden folder that it is given.

    Returns:
        The version's folder.
    """
    directory = pathlib.Path(directory).expanduser()
    if directory.exists() and not directory.is_dir():
        raise ValueError(
            f"directory: expected a folder, received the file {str(directory)!r}. Choose "
            "another path."
        )
    draft = directory / f"{files.PARTIAL}{secrets.token_hex(4)}"
    try:
        with files.room_for(directory):
            draft.mkdir(parents=True)
            write(draft)
            files.flush_folder(draft)
            return _move_to_next(draft, directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _move_to_next(draft, directory):
    for number in itertools.count(max(versions(directory), default=0) + 1):
        target = directory / str(number)
        try:
            draft.rename(target)
        except OSError as error:  # unless another writer was faster
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            files.flush(directory)
            return target
