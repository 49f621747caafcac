"""Reading archives from outside: checksums, member names and pictures are checked before use.

Nothing is ever unpacked to disk. Members are read in memory, and an archive with a member that an
unpacker could be led astray by (`..`, absolute paths, links) is refused as a whole: it is not the
official file, whatever else it holds.
"""

import functools
import hashlib
import pathlib
import re
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator

# Far more than any picture or list in these archives takes; stops decompression bombs.
MAX_MEMBER_BYTES = 16 * 2**20

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_SIGNATURE = b"\xff\xd8\xff"
_DAMAGED = (zipfile.BadZipFile, tarfile.TarError, EOFError, zlib.error, OSError)


class ArchiveError(ValueError):
    """An archive or one of its members is not what it should be."""


def md5(path: pathlib.Path) -> str:
    """The MD5 of a file, as the publishers of these archives give it."""
    status = path.stat()
    return _md5(path, status.st_size, status.st_mtime_ns)


@functools.cache
def _md5(path, size, modified):
    del size, modified  # They are there so that a changed file is read again.
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def check_md5(path: pathlib.Path, expected: str) -> None:
    """Raises ArchiveError unless the file at `path` has the MD5 `expected`."""
    received = md5(path)
    if received != expected:
        raise ArchiveError(
            f"{path}: expected MD5 {expected}, received {received} in a file of "
            f"{path.stat().st_size:,} bytes; it is incomplete or not the published one: "
            "remove it and fetch it again."
        )


class ZipReader:
    """The members of a zip file, by name; the whole index is checked when it is opened."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except _DAMAGED as error:
            raise ArchiveError(
                f"{path}: not a complete zip file (truncated or damaged: {error}); fetch it again."
            ) from error
        self._members = {}
        for member in self._zip.infolist():
            is_link = stat.S_ISLNK(member.external_attr >> 16)
            _check_member(path, member.filename, member.file_size, is_link)
            if member.filename in self._members:
                raise ArchiveError(f"{path}: member {member.filename!r} appears twice.")
            self._members[member.filename] = member

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._zip.close()

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def names(self) -> list[str]:
        """The names of all members, folders too, in the order of the index."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """The bytes of one member."""
        if name not in self._members:
            raise ArchiveError(
                f"{self.path}: member {name!r} is missing; expected the official layout."
            )
        try:
            return self._zip.read(name)
        except (*_DAMAGED, RuntimeError, NotImplementedError) as error:
            raise ArchiveError(
                f"{self.path}: member {name!r} cannot be read ({error}); fetch the archive again."
            ) from error


def read_tar(path: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Names and bytes of the files of a tar archive, compressed or not, in its order."""
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                is_special = not (member.isfile() or member.isdir())
                _check_member(path, member.name, member.size, is_special)
                if member.isfile():
                    yield member.name, tar.extractfile(member).read()
    except _DAMAGED as error:
        raise ArchiveError(
            f"{path}: not a complete tar file (truncated or damaged: {error}); fetch it again."
        ) from error


def _check_member(path, name, size, is_special):
    parts = re.split(r"[/\\]", name)
    if ".." in parts or parts[0] == "" or re.match(r"[A-Za-z]:", name):
        raise ArchiveError(
            f"{path}: member {name!r} points outside the archive's folder; "
            "nothing was read from it."
        )
    if is_special:
        raise ArchiveError(
            f"{path}: member {name!r} is a link or a device, which no dataset needs; "
            "nothing was read from it."
        )
    if size > MAX_MEMBER_BYTES:
        raise ArchiveError(
            f"{path}: member {name!r} would take {size:,} bytes; "
            f"expected at most {MAX_MEMBER_BYTES:,}."
        )


def check_picture(encoded: bytes, where: str) -> tuple[int, int]:
    """Checks that a file is a whole JPEG or PNG picture with 8 bits a channel.

    Args:
        encoded: the bytes of the file.
        where: archive and member, for the message.

    Returns:
        Height and width.
    """
    import tensorflow as tf

    if not encoded.startswith((_PNG_SIGNATURE, _JPEG_SIGNATURE)):
        raise ArchiveError(f"{where}: expected a JPEG or PNG picture; received other content.")
    # The header of a PNG has its bits per channel at byte 24. TensorFlow would drop the lower half.
    if encoded.startswith(_PNG_SIGNATURE) and len(encoded) > 24 and encoded[24] == 16:
        raise ArchiveError(f"{where}: expected 8 bits a channel; received a 16-bit picture.")
    try:
        image = decode_picture(encoded)
    except tf.errors.InvalidArgumentError as error:
        reason = str(error.message).strip().splitlines()[0]
        raise ArchiveError(f"{where}: the picture is damaged ({reason}).") from error
    return int(image.shape[0]), int(image.shape[1])


def decode_picture(encoded):
    """A JPEG or PNG as uint8 RGB; grey pictures get three equal channels. Works in graphs."""
    import tensorflow as tf

    # In spite of its name the operation reads PNG, too. The accurate integer transform gives the
    # same pixels on every machine.
    return tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE")
