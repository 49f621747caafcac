"""Archives and pictures from outside. Every archive is made here."""

import io
import tarfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.data import archives

MEMBERS = [("folder/a.txt", b"first"), ("folder/b.txt", b"second" * 1000)]
INDEX_ENTRY = b"PK\x01\x02"
GRAY = np.random.RandomState(0).randint(0, 256, size=[6, 5, 1]).astype(np.uint8)
PHOTO = np.random.RandomState(0).randint(0, 256, size=[64, 64, 3]).astype(np.uint8)


def write_zip(path, members=MEMBERS):
    with zipfile.ZipFile(path, "w") as file:
        for name, content in members:
            file.writestr(name, content)
    return path


def changed(path, at, new):
    content = bytearray(path.read_bytes())
    content[at : at + len(new)] = new
    path.write_bytes(content)
    return path


def rejected(path, message):
    with pytest.raises(archives.ArchiveError, match=message) as error:
        archives.read_zip(path)
    assert str(error.value).startswith(f"{path}: expected a complete zip file")
    assert "\n" not in str(error.value)


class TestZip:
    def test_members_come_in_order(self, tmp_path):
        assert list(archives.read_zip(write_zip(tmp_path / "a.zip")).items()) == MEMBERS

    @pytest.mark.parametrize("name", ["../evil", "/etc/evil", "..\\evil", "C:\\evil"])
    def test_nothing_is_written_whatever_the_names_are(self, tmp_path, name):
        (tmp_path / "inside").mkdir()
        path = write_zip(tmp_path / "inside" / "a.zip", [(name, b"x")])
        assert archives.read_zip(path) == {name: b"x"}
        assert sorted(each.name for each in tmp_path.rglob("*")) == ["a.zip", "inside"]

    def test_damaged_files(self, tmp_path):
        path = write_zip(tmp_path / "a.zip")
        good = path.read_bytes()
        for content in (good[:-50], good[:200], b"<html>not found</html>", b""):
            path.write_bytes(content)
            rejected(path, "received a damaged one")
        at = good.index(b"secondsecond") + 7
        path.write_bytes(good)
        rejected(changed(path, at, b"?"), r"'folder/b\.txt'.*CRC|CRC.*'folder/b\.txt'")

    def test_a_bomb_is_rejected_before_it_is_unpacked(self, tmp_path, monkeypatch):
        monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 1_000)
        rejected(write_zip(tmp_path / "a.zip", [("bomb", bytes(1_001))]), "'bomb', too large")

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    def test_a_member_that_appears_twice_is_rejected(self, tmp_path):
        rejected(write_zip(tmp_path / "a.zip", [*MEMBERS, MEMBERS[0]]), "a.txt', .*there twice")

    @pytest.mark.parametrize(
        ("place", "new", "message"),
        [
            (6, b"\xff", "zip file version"),
            (8, b"\x01", "encrypted"),
            (10, b"\x63", "compression"),
            (16, bytes(8), "not of 5 bytes"),  # sum and stored size of nothing
            (46, b"F", "differ"),
        ],
    )
    def test_what_the_index_says_wrongly_is_rejected(self, tmp_path, place, new, message):
        path = write_zip(tmp_path / "a.zip")
        rejected(changed(path, path.read_bytes().index(INDEX_ENTRY) + place, new), message)


def test_only_files_of_tar_archives_are_read(tmp_path):
    link = tarfile.TarInfo("folder/link")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as file:
        for name, content in MEMBERS:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))
        file.addfile(link)
    assert list(archives.read_tar(tmp_path / "a.tar.gz")) == MEMBERS


def test_md5(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"abc")
    # RFC 1321 gives this sum.
    archives.check_md5(path, "900150983cd24fb0d6963f7d28e17f72")
    path.write_bytes(b"abcd")
    with pytest.raises(archives.ArchiveError, match=r"expected MD5 9001.*received e2fc.* 4 bytes"):
        archives.check_md5(path, "900150983cd24fb0d6963f7d28e17f72")


@pytest.mark.parametrize(
    ("content", "received"),
    [
        (tf.io.encode_png(GRAY).numpy(), "6x5 pixels"),
        (tf.io.encode_png(tf.cast(PHOTO, tf.uint16) * 257).numpy(), "16 bits"),
        (tf.io.encode_png(PHOTO).numpy()[:5_000], "another or damaged file"),
        (tf.io.encode_jpeg(PHOTO).numpy()[:2_000], "another or damaged file"),
        (tf.io.encode_jpeg(PHOTO).numpy()[:10], "another or damaged file"),
        (b"", "another or damaged file"),
        (b"GIF89a", "another or damaged file"),
    ],
)
def test_bad_pictures(content, received):
    archives.check_picture(tf.io.encode_jpeg(PHOTO).numpy(), "x", 64)
    with pytest.raises(archives.ArchiveError, match=f"^here: .*received {received}"):
        archives.check_picture(content, "here", 64)
