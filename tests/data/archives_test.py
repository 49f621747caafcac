"""Archives and pictures from outside. Every archive is made here."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.data import archives


def _zip(path, members):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def _tar(path, members):
    with tarfile.open(path, "w:gz") as file:
        for member, content in members:
            if isinstance(member, str):
                member = tarfile.TarInfo(member)
                member.size = len(content)
            file.addfile(member, io.BytesIO(content))
    return path


def _read_all(path):
    if path.suffix == ".zip":
        return list(archives.read_zip(path).items())
    return list(archives.read_tar(path))


MEMBERS = [("folder/a.txt", b"first"), ("folder/b.txt", b"second" * 1000)]
UNSAFE = ["../evil", "folder/../../evil", "/etc/evil", "..\\evil", "C:\\evil", "\\evil", "a/.."]


@pytest.mark.parametrize("make", [_zip, _tar])
class TestBoth:
    def _path(self, tmp_path, make):
        return tmp_path / ("a.zip" if make is _zip else "a.tar.gz")

    def test_members_come_in_order(self, tmp_path, make):
        assert _read_all(make(self._path(tmp_path, make), MEMBERS)) == MEMBERS

    @pytest.mark.parametrize("name", UNSAFE)
    def test_a_member_outside_the_folder_is_an_error(self, tmp_path, make, name):
        path = make(self._path(tmp_path, make), [*MEMBERS, (name, b"x")])
        with pytest.raises(archives.ArchiveError, match="inside the archive's folder"):
            _read_all(path)
        assert sorted(file.name for file in tmp_path.rglob("*")) == [path.name]

    def test_a_truncated_archive_is_an_error(self, tmp_path, make):
        path = make(self._path(tmp_path, make), [("a", np.random.RandomState(0).bytes(20_000))])
        path.write_bytes(path.read_bytes()[:-5_000])
        with pytest.raises(
            archives.ArchiveError, match=r"expected a complete .* file, .*Fetch it again"
        ):
            _read_all(path)

    def test_something_else_is_an_error(self, tmp_path, make):
        path = self._path(tmp_path, make)
        path.write_bytes(b"<html>not found</html>")
        with pytest.raises(archives.ArchiveError, match="expected a complete") as error:
            _read_all(path)
        assert "\n" not in str(error.value)

    def test_a_bomb_is_refused_before_it_is_unpacked(self, tmp_path, make, monkeypatch):
        monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1_000)
        path = make(self._path(tmp_path, make), [("bomb", bytes(1_001))])
        with pytest.raises(archives.ArchiveError, match="with 1,001"):
            _read_all(path)


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_in_tar_files_are_refused(tmp_path, kind):
    link = tarfile.TarInfo("folder/link")
    link.type, link.linkname = kind, "/etc/passwd"
    with pytest.raises(archives.ArchiveError, match="a link or a device"):
        _read_all(_tar(tmp_path / "a.tar.gz", [*MEMBERS, (link, b"")]))


def test_links_in_zip_files_are_refused(tmp_path):
    link = zipfile.ZipInfo("folder/link")
    link.external_attr = 0o120777 << 16
    with pytest.raises(archives.ArchiveError, match="a link or a device"):
        _read_all(_zip(tmp_path / "a.zip", [*MEMBERS, (link, b"/etc/passwd")]))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_appears_twice_is_refused(tmp_path):
    with pytest.raises(archives.ArchiveError, match="2 names of 3 members"):
        _read_all(_zip(tmp_path / "a.zip", [*MEMBERS, MEMBERS[0]]))


def test_a_damaged_member_is_named(tmp_path):
    path = _zip(tmp_path / "a.zip", MEMBERS)
    content = bytearray(path.read_bytes())
    content[content.index(b"secondsecond") + 7] ^= 1
    path.write_bytes(content)
    with pytest.raises(archives.ArchiveError, match=r"member 'folder/b\.txt': expected .*CRC"):
        _read_all(path)


INDEX_ENTRY, INDEX_END = b"PK\x01\x02", b"PK\x05\x06"


def _changed(path, at, new):
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)
    return path


def test_an_index_that_has_swallowed_members_is_refused(tmp_path):
    path = _zip(tmp_path / "a.zip", [*MEMBERS, ("folder/c.txt", b"third")])
    content = path.read_bytes()
    second = content.index(INDEX_ENTRY, content.index(INDEX_ENTRY) + 4)
    rest = content.index(INDEX_END) - second - 46 - len("folder/b.txt")
    _changed(path, second + 32, rest.to_bytes(2, "little"))  # the length of its comment
    with pytest.raises(archives.ArchiveError, match=r"expected 3 different members .* received 2"):
        _read_all(path)


@pytest.mark.slow
def test_an_index_of_the_longer_form_is_accepted(tmp_path):
    path = _zip(tmp_path / "a.zip", [(f"{i}", b"") for i in range(65_536)])
    assert len(_read_all(path)) == 65_536


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        (6, b"\xff", "expected a complete zip file, .*zip file version"),
        (8, b"\x01", "complete member, .*encrypted"),
        (10, b"\x63", "complete member, .*compression"),
        (16, bytes(8), "0 bytes in place of 5"),  # sum and stored size of nothing
        (46, b"F", "complete member, .*differ"),
    ],
)
def test_what_the_index_says_wrongly_is_refused(tmp_path, place, new, message):
    path = _zip(tmp_path / "a.zip", MEMBERS)
    _changed(path, path.read_bytes().index(INDEX_ENTRY) + place, new)
    with pytest.raises(archives.ArchiveError, match=message) as error:
        _read_all(path)
    assert "\n" not in str(error.value)


def test_the_sum_at_the_end_of_a_compressed_tar_file_counts(tmp_path):
    path = _tar(tmp_path / "a.tar.gz", MEMBERS)
    _changed(path, path.stat().st_size - 8, b"abcd")
    with pytest.raises(archives.ArchiveError, match=r"expected a complete tar file, .*CRC"):
        _read_all(path)


def test_md5(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    # RFC 1321 gives this sum.
    archives.check_md5(path, "900150983cd24fb0d6963f7d28e17f72")
    path.write_bytes(b"abcd")
    with pytest.raises(archives.ArchiveError, match=r"expected MD5 9001.*received e2fc.* 4 bytes"):
        archives.check_md5(path, "900150983cd24fb0d6963f7d28e17f72")


GRAY = np.random.RandomState(0).randint(0, 256, size=[6, 5, 1]).astype(np.uint8)
PHOTO = np.random.RandomState(0).randint(0, 256, size=[64, 64, 3]).astype(np.uint8)


class TestPictures:
    def test_good_ones(self):
        archives.check_picture(tf.io.encode_png(GRAY).numpy(), "x", 5, or_larger=True)
        archives.check_picture(tf.io.encode_jpeg(PHOTO).numpy(), "x", 64)

    @pytest.mark.parametrize(
        ("content", "received"),
        [
            (tf.io.encode_png(GRAY).numpy(), "6x5 pixels"),
            (tf.io.encode_png(tf.cast(GRAY, tf.uint16) * 257).numpy(), "16 bits"),
            (tf.io.encode_png(PHOTO).numpy()[:5_000], "another or damaged file"),
            (tf.io.encode_jpeg(PHOTO).numpy()[:2_000], "another or damaged file"),
            (tf.io.encode_jpeg(PHOTO).numpy()[:10], "another or damaged file"),
            (b"", "another or damaged file"),
            (b"GIF89a", "another or damaged file"),
        ],
    )
    def test_bad_ones(self, content, received):
        with pytest.raises(archives.ArchiveError, match=f"^here: .*received {received}"):
            archives.check_picture(content, "here", 5)
