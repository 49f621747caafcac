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
        return list(archives.read_zip(path))
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
    with pytest.raises(archives.ArchiveError, match=r"'folder/a.txt' twice"):
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
    with pytest.raises(archives.ArchiveError, match="expected 3 members in its index, received 2"):
        _read_all(path)


@pytest.mark.slow
def test_an_index_of_the_longer_form_is_accepted(tmp_path):
    path = _zip(tmp_path / "a.zip", [(f"{i}", b"") for i in range(65_536)])
    assert len(_read_all(path)) == 65_536


@pytest.mark.parametrize(
    ("place", "new", "message"),
    [
        (6, b"\xff", "expected a complete zip file, .*zip file version"),
        (8, b"\x01", "can be read, .*encrypted"),
        (10, b"\x63", "can be read, .*compression"),
        (16, bytes(8), "expected 5 bytes, received 0"),  # sum and stored size of nothing
        (46, b"F", "can be read, .*differ"),
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


class TestPictures:
    grey = np.random.RandomState(0).randint(0, 256, size=[6, 5, 1]).astype(np.uint8)

    def test_grey_pictures_get_three_equal_channels(self):
        encoded = tf.io.encode_png(self.grey).numpy()
        archives.check_picture(encoded, "x", 5, or_larger=True)
        with pytest.raises(archives.ArchiveError, match="expected 5x5 pixels, received 6x5"):
            archives.check_picture(encoded, "x", 5)
        received = archives.decode_picture(encoded).numpy()
        np.testing.assert_array_equal(received, np.repeat(self.grey, 3, axis=-1))

    def test_colour_pngs_are_exact_and_jpegs_near(self):
        colour = np.concatenate([self.grey, self.grey[::-1], self.grey[:, ::-1]], axis=-1)
        png = tf.io.encode_png(colour).numpy()
        np.testing.assert_array_equal(archives.decode_picture(png), colour)
        flat = np.full([16, 16, 3], 77, np.uint8)
        jpeg = tf.io.encode_jpeg(flat).numpy()
        archives.check_picture(jpeg, "x", 16)
        np.testing.assert_allclose(archives.decode_picture(jpeg), flat, atol=1)

    def test_16_bits_are_refused(self):
        encoded = tf.io.encode_png(tf.cast(self.grey, tf.uint16) * 257).numpy()
        with pytest.raises(archives.ArchiveError, match=r"^here: expected 8 bits .* 16-bit"):
            archives.check_picture(encoded, "here", 4)

    @pytest.mark.parametrize("encode", [tf.io.encode_png, tf.io.encode_jpeg])
    def test_damage_is_found(self, encode):
        encoded = encode(np.random.RandomState(0).randint(0, 256, [64, 64, 3]).astype(np.uint8))
        encoded = encoded.numpy()
        with pytest.raises(archives.ArchiveError, match=r"^here: .*received a damaged one"):
            archives.check_picture(encoded[: len(encoded) // 2], "here", 4)
        with pytest.raises(archives.ArchiveError, match=r"^here: .*received a damaged one"):
            archives.check_picture(encoded[:10], "here", 4)

    @pytest.mark.parametrize("content", [b"", b"GIF89a", b"<html>"])
    def test_other_content_is_refused(self, content):
        with pytest.raises(archives.ArchiveError, match="expected a JPEG or PNG"):
            archives.check_picture(content, "here", 4)
