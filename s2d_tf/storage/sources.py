"""Where an entry's files come from: a folder, or an address on the web. Both only give bytes."""

import errno
import os
import pathlib
import stat

from s2d_tf.storage.entries import ENTRY, ZooError, entry_name, file_name, within


class Folder:
    """An entry's folder on this machine."""

    def __init__(self, path):
        self.path = pathlib.Path(path)

    def __str__(self):
        return str(self.path)

    def sibling(self, name):
        """The folder of another entry, beside this one."""
        return Folder(self.path.resolve().parent / entry_name(name))

    def read(self, name, limit):
        """The bytes of a file in the folder: regular, no link, at most `limit` bytes."""
        path = self.path / file_name(name)
        try:
            # Not waiting for the other end of a pipe, nor following a link out of the folder.
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise ZooError(f"{path} is not a regular file.")
                data = file.read(limit + 1)
        except FileNotFoundError:
            raise ZooError(f"{path} is missing: get the entry's folder again.") from None
        except OSError as error:
            if error.errno == errno.ELOOP:
                raise ZooError(f"{path} is a symbolic link, expected the file itself.") from None
            raise ZooError(f"{path} cannot be read ({error.strerror}).") from None
        return within(data, limit, path)


def find(where):
    """The source of an entry that is given by a path or an address, of its folder or entry.json."""
    if isinstance(where, str) and "://" in where:
        # Here and not above: urllib takes long to import, and most entries are folders.
        import urllib.parse
        import urllib.request

        from s2d_tf.storage.web import Address

        parts = urllib.parse.urlsplit(where)
        if parts.scheme not in ("http", "https", "file"):
            raise ZooError(f"Expected an address of http, https or file, received {where!r}.")
        if parts.query or parts.fragment:
            raise ZooError(f"Expected an address without ? and #, received {where!r}.")
        if parts.scheme == "file":
            return find(pathlib.Path(urllib.request.url2pathname(parts.path)))
        return Address(where.removesuffix(f"/{ENTRY}"))
    path = pathlib.Path(where).expanduser()
    path = path.parent if path.name == ENTRY else path
    if not path.is_dir():
        raise ZooError(f"Expected the folder of an entry, received {path}, which is none.")
    return Folder(path)
