"""Reading archives from outside.

Nothing is ever unpacked to disk: members are read in memory, links are left out, and the names of
members are never used as paths, so an archive cannot write anywhere. Archives with a published
checksum are compared with it first; of others every member and picture is checked.
"""

from __future__ import annotations

import hashlib
import lzma
import pathlib
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

from s2d_tf.data import image_files
from s2d_tf.errors import UserError

# Far more than any picture or list in these archives takes; stops decompression bombs.
MAX_MEMBER_BYTES = 16 * 2**20

# What zipfile and the decompressors raise for damaged files.
_DAMAGED = (
    zipfile.BadZipFile, zlib.error, lzma.LZMAError, struct.error, EOFError, OSError, RuntimeError,
    ValueError, OverflowError,
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
    """The members of a zip file in the order of its index; folders are empty members.

    Raises:
        ArchiveError: the file is damaged, or a member is too large or there twice.
    """
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(path) as archive:
            for member in archive.infolist():
                if member.filename in found or member.file_size > MAX_MEMBER_BYTES:
                    raise ValueError(f"{member.filename!r}, too large or there twice")
                with archive.open(member) as file:
                    # Not all: it may hold more than it says.
                    found[member.filename] = file.read(member.file_size + 1)
                if len(found[member.filename]) != member.file_size:
                    raise ValueError(f"{member.filename!r}, not of {member.file_size:,} bytes")
    except _DAMAGED as error:
        reason = (str(error).splitlines() or [""])[0].rstrip(":")[:200] or type(error).__name__
        raise ArchiveError(
            f"{path}: expected a complete zip file, received a damaged one ({reason}). Fetch it "
            "again."
        ) from error
    return found


def read_tar(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files of a tar archive whose checksum is known, in its order."""
    with tarfile.open(path) as tar:
        for member in tar:
            file = tar.extractfile(member) if member.isfile() else None
            if file:
                yield member.name, file.read()


def check_picture(encoded: bytes, where: str, side: int) -> None:
    """Checks that a file is a complete JPEG or PNG picture with 8 bits a channel.

    Args:
        encoded: the bytes of the file.
        where: archive and member, for the message.
        side: its height and width.
    """
    import tensorflow as tf

    # The header of a PNG has its bits per channel at byte 24. TensorFlow would drop the lower half.
    is_deep = encoded.startswith(image_files.PNG_START) and encoded[24:25] == b"\x10"
    received = "16 bits" if is_deep else "another or damaged file"
    if encoded.startswith((image_files.PNG_START, image_files.JPEG_START)) and not is_deep:
        try:
            height, width, _ = image_files.decode(encoded).shape
            received = f"{height}x{width} pixels"
        except tf.errors.InvalidArgumentError:
            pass
    if received != f"{side}x{side} pixels":
        raise ArchiveError(
            f"{where}: expected a JPEG or PNG picture of {side}x{side} pixels with 8 bits a "
            f"channel, received {received}. Fetch the archive again."
        )
