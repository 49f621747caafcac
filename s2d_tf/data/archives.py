"""Reading archives from outside: checksums, member names and pictures are checked before use.

Nothing is ever unpacked to disk. Members are read in memory, and an archive with a member that
could lead an unpacker astray (`..`, absolute paths, links) is rejected as a whole: it is not the
official file, whatever else it holds.
"""

from __future__ import annotations

import contextlib
import hashlib
import lzma
import pathlib
import re
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO, cast

from s2d_tf.data import image_files
from s2d_tf.errors import UserError

# Far more than any picture or list in these archives takes; stops decompression bombs.
MAX_MEMBER_BYTES = 16 * 2**20

# What zipfile, tarfile and the decompressors raise for damaged files.
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
    OSError, RuntimeError, ValueError, OverflowError,
)  # fmt: skip


class ArchiveError(UserError):
    """An archive or one of its members is not what it should be."""


def md5(path: pathlib.Path) -> str:
    """The MD5 of a file, which the publishers of these archives give."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check_md5(path: pathlib.Path, expected: str) -> None:
    """Raises ArchiveError unless the file at `path` has the MD5 `expected`."""
    received = md5(path)
    if received != expected:
        raise ArchiveError(
            f"{path}: expected MD5 {expected}, received {received} in a file of "
            f"{path.stat().st_size:,} bytes. It is incomplete or not the published one: remove "
            "it and fetch it again."
        )


def read_zip(path: pathlib.Path) -> dict[str, bytes]:
    """The members of a zip file, folders too, in the order of its index.

    The whole index is checked before the first member is read.
    """
    with _damage_explained(path, "zip file"), zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        for member in members:
            is_link = stat.S_ISLNK(member.external_attr >> 16)
            _check_member(path, member.filename, member.file_size, is_link)
        found = {member.filename: _read_member(archive, member) for member in members}
    if len(found) < len(members):
        raise ArchiveError(
            f"{path}: expected each member once, received one twice. Fetch it again."
        )
    return found


def _read_member(archive, member):
    with _damage_explained(f"{archive.filename}: member {member.filename!r}", "member"):
        with archive.open(member) as file:
            content = file.read(member.file_size + 1)  # not all: it may hold more than it says
        if len(content) != member.file_size:
            raise EOFError(f"{len(content):,} bytes in place of {member.file_size:,}")
        return content


def read_tar(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files of a tar archive, compressed or not, in its order.

    Whether a compressed one was complete is known after the last file, not before.
    """
    with _damage_explained(path, "tar file"), tarfile.open(path) as tar:
        for member in tar:
            is_special = not (member.isfile() or member.isdir())
            _check_member(path, member.name, member.size, is_special)
            if member.isfile():
                yield member.name, cast(IO[bytes], tar.extractfile(member)).read()
        # The checksum of a compressed file is at its end, behind all that tar reads.
        while cast(IO[bytes], tar.fileobj).read(2**20):
            pass


@contextlib.contextmanager
def _damage_explained(where, what):
    try:
        yield
    except ArchiveError:
        raise
    except _DAMAGED as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(":")[:200] or type(error).__name__
        raise ArchiveError(
            f"{where}: expected a complete {what}, received a truncated or damaged one ({reason})."
            " Fetch it again."
        ) from error


def _check_member(path, name, size, is_special):
    parts = re.split(r"[/\\]", name)
    if ".." in parts or parts[0] == "" or re.match(r"[A-Za-z]:", name):
        expected, received = "members inside the archive's folder", repr(name)
    elif is_special:
        expected, received = "files and folders", f"{name!r}, which is a link or a device"
    elif size > MAX_MEMBER_BYTES:
        expected = f"members of at most {MAX_MEMBER_BYTES:,} bytes"
        received = f"{name!r} with {size:,}"
    else:
        return
    raise ArchiveError(f"{path}: expected {expected}, received {received}. Fetch it again.")


def check_picture(encoded: bytes, where: str, side: int, or_larger: bool = False) -> None:
    """Checks that a file is a complete JPEG or PNG picture with 8 bits a channel.

    Args:
        encoded: the bytes of the file.
        where: archive and member, for the message.
        side: its height and width.
        or_larger: whether it may be larger than that.
    """
    import tensorflow as tf

    is_known = encoded.startswith((image_files.PNG_START, image_files.JPEG_START))
    # The header of a PNG has its bits per channel at byte 24. TensorFlow would drop the lower half.
    is_deep = encoded.startswith(image_files.PNG_START) and encoded[24:25] == b"\x10"
    received = "16 bits" if is_deep else "another or damaged file"
    if is_known and not is_deep:
        with contextlib.suppress(tf.errors.InvalidArgumentError):
            height, width, _ = image_files.decode(encoded).shape
            if min(height, width) >= side and (or_larger or max(height, width) == side):
                return
            received = f"{height}x{width} pixels"
    raise ArchiveError(
        f"{where}: expected a JPEG or PNG picture of {side}x{side} pixels with 8 bits a channel, "
        f"received {received}. Fetch the archive again."
    )
