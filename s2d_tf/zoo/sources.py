"""Where an entry's files come from: a folder, or an address on the web. Both only give bytes."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING, TypeAlias

from s2d_tf import _paths, files
from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes
from s2d_tf.zoo.entries import ZooError, entry_name, file_name
from s2d_tf.zoo.layout import ENTRY, RECIPE

if TYPE_CHECKING:
    from s2d_tf.zoo.hub import Repository
    from s2d_tf.zoo.web import Address

Source: TypeAlias = "Folder | Address | Repository"


class Folder:
    """An entry's folder on this machine."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = pathlib.Path(path)

    def __str__(self) -> str:
        return str(self.path)

    def sibling(self, name: str) -> Folder:
        """The folder of another entry, beside this one."""
        return Folder(self.path.resolve().parent / entry_name(name))

    def read(self, name: str, limit: int) -> bytes:
        """The bytes of a file in the folder: regular, not a link, at most `limit` bytes."""
        return files.read_bytes(self.path / file_name(name), limit, ZooError, follow_links=False)


def pretrained_directory() -> pathlib.Path:
    """The folder of this library's entries with weights.

    Example:

    >>> (zoo.directory() / "wrn_10_2_s2.s2d.digits" / "README.md").is_file()
    True
    """
    return _paths.zoo_directory() / "pretrained"


def pretrained_names() -> set:
    """Names of this library's entries with weights."""
    return {path.parent.name for path in pretrained_directory().glob(f"*/{ENTRY}")}


def is_name(where: PathLike) -> bool:
    """Whether a person means an entry of this library, not a folder or an address."""
    plain = isinstance(where, str) and "://" not in where and os.sep not in where
    return plain and (where in recipes.names() or not os.path.isdir(where))


def find(where: PathLike) -> Source:
    """The source of an entry.

    Args:
        where: the name of an entry of this library; or the path or the http(s) address of an
            entry's folder or `entry.json`.
    """
    if is_name(where):
        recipes.resolve(str(where))  # an unknown name lists near ones
        if where not in pretrained_names():
            raise ZooError(
                f"{where}: expected an entry with weights, received one without. `s2d train "
                f"{where} --workdir=DIR` trains it; if the repository has it, pass that folder."
            )
        return Folder(pretrained_directory() / where)
    if isinstance(where, str) and where.startswith("hf://"):
        from s2d_tf.zoo.hub import Repository

        return Repository.parse(where)
    if isinstance(where, str) and "://" in where:
        # Here and not above: urllib takes long to import, and most entries are folders.
        import urllib.parse
        import urllib.request

        from s2d_tf.zoo.web import Address

        parts = urllib.parse.urlsplit(where)
        if parts.scheme not in ("http", "https", "file") or parts.query or parts.fragment:
            raise ZooError(
                f"where: expected an http, https or file address without ? and #, received "
                f"{where!r}. Pass that of the entry's folder."
            )
        if parts.scheme == "file":
            return find(pathlib.Path(urllib.request.url2pathname(parts.path)))
        return Address(where.removesuffix(f"/{ENTRY}"))
    path = pathlib.Path(where).expanduser()
    path = path.parent if path.name == ENTRY else path
    if not (path / ENTRY).exists():
        raise ZooError(
            f"{path}: expected a run directory with a {RECIPE}, or an entry's with an {ENTRY}, "
            "received neither. Check the path."
        )
    return Folder(path)
