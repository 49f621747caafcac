"""Reading archives from outside: checksums, member names and pictures are checked before use.

Nothing is ever unpacked to disk. Members are read in memory, and an archive with a member that an
unpacker could be led astray by (`..`, absolute paths, links) is rejected as a whole: it is not the
official file, whatever else it holds.
"""

from __future__ import annotations

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

from s2d_tf._types import Tensor, TensorLike
from s2d_tf.errors import UserError

# Far more than any picture or list in these archives takes; stops decompression bombs.
MAX_MEMBER_BYTES = 16 * 2**20

PNG_START = b"\x89PNG\r\n\x1a\n"
JPEG_START = b"\xff\xd8\xff"
# What zipfile, tarfile and the decompressors raise for damaged files; ArchiveError is a ValueError.
_DAMAGED = (
    zipfile.BadZipFile, tarfile.TarError, zlib.error, lzma.LZMAError, struct.error, EOFError,
    OSError, RuntimeError, ValueError, OverflowError,
)  # fmt: skip


class ArchiveError(UserError):
    """An archive or one of its members is not what it should be."""


def md5(path: pathlib.Path) -> str:
    """The MD5 of a file, as the publishers of these archives give it."""
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


def read_zip(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the members of a zip file, folders too, in the order of its index.

    The whole index is checked before the first member is read.
    """
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGED as error:
        raise ArchiveError(
            f"{path}: expected a complete zip file, received a truncated or damaged one "
            f"({_reason(error)}). Fetch it again."
        ) from error
    with archive:
        members = {}
        for member in archive.infolist():
            is_link = stat.S_ISLNK(member.external_attr >> 16)
            _check_member(path, member.filename, member.file_size, is_link)
            if member.filename in members:
                raise ArchiveError(
                    f"{path}: expected each member once, received {member.filename!r} twice. Fetch "
                    "it again."
                )
            members[member.filename] = member
        _check_count(path, len(members))
        for name, member in members.items():
            yield name, _read_member(archive, member)


def _read_member(archive, member):
    where = f"{archive.filename}: member {member.filename!r}"
    try:
        with archive.open(member) as file:
            content = file.read(member.file_size + 1)  # not all: it may hold more than it says
    except _DAMAGED as error:
        raise ArchiveError(
            f"{where}: expected a member that can be read, received a damaged one "
            f"({_reason(error)}). Fetch the archive again."
        ) from error
    if len(content) != member.file_size:
        raise ArchiveError(
            f"{where}: expected {member.file_size:,} bytes, received {len(content):,}. Fetch the "
            "archive again."
        )
    return content


def read_tar(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files of a tar archive, compressed or not, in its order.

    Whether a compressed one was whole is known when the last file was taken, not before.
    """
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                is_special = not (member.isfile() or member.isdir())
                _check_member(path, member.name, member.size, is_special)
                if member.isfile():
                    yield member.name, cast(IO[bytes], tar.extractfile(member)).read()
            # The checksum of a compressed file stands at its end, behind all that tar reads.
            while cast(IO[bytes], tar.fileobj).read(2**20):
                pass
    except ArchiveError:
        raise
    except _DAMAGED as error:
        raise ArchiveError(
            f"{path}: expected a complete tar file, received a truncated or damaged one "
            f"({_reason(error)}). Fetch it again."
        ) from error


def _check_count(path, received):
    """Compares the index with the number at its end, which zipfile does not."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 2**16 - 22))
        end = file.read()
    (expected,) = struct.unpack_from("<H", end, end.rindex(b"PK\x05\x06") + 10)
    # Two bytes: of more than 65,535 members some writers give the rest, others 65,535.
    if expected not in (received % 2**16, 0xFFFF):
        raise ArchiveError(
            f"{path}: expected {expected:,} members in its index, received {received:,}. Fetch "
            "it again."
        )


def _reason(error):
    return (str(error).splitlines() or [""])[0].rstrip(":")[:200] or type(error).__name__


def _check_member(path, name, size, is_special):
    parts = re.split(r"[/\\]", name)
    if ".." in parts or parts[0] == "" or re.match(r"[A-Za-z]:", name):
        raise ArchiveError(
            f"{path}: expected members inside the archive's folder, received {name!r}. "
            "Nothing was read from it: fetch it again."
        )
    if is_special:
        raise ArchiveError(
            f"{path}: expected files and folders, received {name!r}, which is a link or a "
            "device. Nothing was read from it: fetch it again."
        )
    if size > MAX_MEMBER_BYTES:
        raise ArchiveError(
            f"{path}: expected members of at most {MAX_MEMBER_BYTES:,} bytes, received "
            f"{name!r} with {size:,}. Fetch it again."
        )


def check_picture(encoded: bytes, where: str, side: int, or_larger: bool = False) -> None:
    """Checks that a file is a whole JPEG or PNG picture with 8 bits a channel.

    Args:
        encoded: the bytes of the file.
        where: archive and member, for the message.
        side: its height and width.
        or_larger: whether it may be larger than that.
    """
    import tensorflow as tf

    if not encoded.startswith((PNG_START, JPEG_START)):
        raise ArchiveError(
            f"{where}: expected a JPEG or PNG picture, received other content. Fetch the "
            "archive again."
        )
    # The header of a PNG has its bits per channel at byte 24. TensorFlow would drop the lower half.
    if encoded.startswith(PNG_START) and len(encoded) > 24 and encoded[24] == 16:
        raise ArchiveError(
            f"{where}: expected 8 bits a channel, received a 16-bit picture. Fetch the "
            "archive again."
        )
    try:
        image = decode_picture(encoded)
    except tf.errors.InvalidArgumentError as error:
        reason = str(error.message).strip().splitlines()[0]
        raise ArchiveError(
            f"{where}: expected a picture that can be decoded, received a damaged one "
            f"({reason}). Fetch the archive again."
        ) from error
    height, width, _ = image.shape
    if min(height, width) < side or (max(height, width) > side and not or_larger):
        raise ArchiveError(
            f"{where}: expected {side}x{side} pixels, received {height}x{width}. Fetch the "
            "archive again."
        )


def decode_picture(encoded: TensorLike, channels: int = 3) -> Tensor:
    """A JPEG or PNG as uint8 RGB; gray pictures get three equal channels. Works in graphs."""
    import tensorflow as tf

    # In spite of its name the operation reads PNG, too. The accurate integer transform gives the
    # same pixels on every machine.
    return tf.io.decode_jpeg(encoded, channels=channels, dct_method="INTEGER_ACCURATE")
