"""Version folders: a new one appears whole or not at all."""

import contextlib
import errno
import os
import pathlib
import shutil
import tempfile

from s2d_tf import files


def versions(directory):
    """Numbers of the version folders in `directory`, ascending."""
    directory = pathlib.Path(directory)
    if not directory.is_dir():
        return []
    # The names that TF Serving takes for numbers; a leading zero would be a second name for one.
    found = (path.name for path in directory.iterdir() if path.is_dir())
    return sorted(int(name) for name in found if name.isdecimal() and str(int(name)) == name)


@contextlib.contextmanager
def new_version(directory):
    """Yields a hidden folder to fill, which then becomes the next version.

    A server that watches `directory` sees the version only when all of it is there and on disk. If
    the body fails, nothing is left. Two writers get two versions.

    Yields:
        An object whose `path` is the hidden folder, and afterwards the version's.
    """
    directory = pathlib.Path(directory).expanduser()
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"directory must be a folder, received the file {directory}.")
    directory.mkdir(parents=True, exist_ok=True)
    draft = Draft(pathlib.Path(tempfile.mkdtemp(prefix=".export-", dir=directory)))
    try:
        yield draft
        files.flush_folder(draft.path)
        os.chmod(draft.path, 0o777 & ~_umask())  # mkdtemp's own is for this user alone
        draft.path = _move_to_next(draft.path, directory)
    except BaseException:
        shutil.rmtree(draft.path, ignore_errors=True)
        raise


class Draft:
    """A version that is being written; see `new_version`."""

    def __init__(self, path):
        self.path = path


def _move_to_next(path, directory):
    number = max(versions(directory), default=0) + 1
    while True:
        target = directory / str(number)
        try:
            path.rename(target)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
            number += 1  # another writer was faster
            continue
        files.flush(directory)
        return target


def _umask():
    current = os.umask(0)
    os.umask(current)
    return current
