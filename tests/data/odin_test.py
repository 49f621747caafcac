"""The published archives, in small copies of their layout."""

import dataclasses
import hashlib
import io
import tarfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf import data
from s2d_tf.data import odin

NAMES = [name for name in data.names() if name.startswith("odin_")]


def _picture(seed, side=32, channels=3):
    shape = [side, side, channels]
    return np.random.RandomState(seed).randint(0, 256, size=shape).astype(np.uint8)


def _png(pixels):
    return tf.io.encode_png(pixels).numpy()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Writes a small archive in place of a published one, whose MD5 it takes over."""

    def write(name, members, *, md5=None, cut=0):
        config = name.removeprefix("odin_")
        archive = odin.ARCHIVES[config]
        path = tmp_path / "data" / "downloads" / "manual" / archive.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as file:
            for member, content in members.items():
                if isinstance(member, str):
                    member = tarfile.TarInfo(member.replace("@", archive.folder))
                    member.size = len(content)
                file.addfile(member, io.BytesIO(content))
        if cut:
            path.write_bytes(path.read_bytes()[:-cut])
        md5 = md5 or hashlib.md5(path.read_bytes()).hexdigest()
        monkeypatch.setitem(odin.ARCHIVES, config, dataclasses.replace(archive, md5=md5))
        return tmp_path / "data"

    return write


@pytest.mark.parametrize("name", NAMES)
def test_pictures_come_in_the_order_of_their_numbers(publish, name):
    pictures = {f"@/{number}.png": _picture(number) for number in (10, 2, 0)}
    others = {"@/._0.png": b"mac", "@/.DS_Store": b"mac", "README": b"text"}
    members = {key: _png(value) for key, value in pictures.items()} | others
    folder = publish(name, members)
    images, labels = data.load_arrays(name, "test", folder)
    np.testing.assert_array_equal(images, [_picture(0), _picture(2), _picture(10)])
    assert labels.tolist() == [-1, -1, -1]
    assert labels.dtype == np.int64
    assert data.available_splits(name, folder) == ("test",)


def test_larger_and_grey_pictures(publish):
    large, grey = _picture(1, side=36), _picture(2, channels=1)
    folder = publish("odin_lsun_crop", {"@/0.png": _png(large), "@/1.png": _png(grey)})
    images, _ = data.load_arrays("odin_lsun_crop", "test", folder)
    np.testing.assert_array_equal(images[0], large[2:34, 2:34])
    np.testing.assert_array_equal(images[1], np.repeat(grey, 3, axis=-1))


def _link():
    member = tarfile.TarInfo("LSUN/test/link")
    member.type, member.linkname = tarfile.SYMTYPE, "../../.."
    return member


GOOD = {"@/0.png": _png(_picture(0))}
BAD = {
    "wrong md5": (
        GOOD,
        {"md5": "0" * 32},
        r"LSUN\.tar\.gz: expected MD5 0000.*received .*fetch it",
    ),
    "truncated": (GOOD, {"cut": 100}, "expected a complete tar file"),
    "outside": (GOOD | {"../evil.png": b""}, {}, "received '../evil.png'"),
    "link": (GOOD | {_link(): b""}, {}, "a link or a device"),
    "16 bits": (
        GOOD | {"@/1.png": _png(np.zeros([32, 32, 3], np.uint16))},
        {},
        r"LSUN/test/1\.png': expected 8 bits",
    ),
    "damaged": (
        GOOD | {"@/1.png": _png(_picture(1))[:99]},
        {},
        r"1\.png': .*received a damaged one",
    ),
    "small": (GOOD | {"@/1.png": _png(_picture(1, side=31))}, {}, "32x32 pixels, received 31x31"),
    "other folder": (
        {"LSUN/train/0.png": GOOD["@/0.png"]},
        {},
        "pictures in the folder 'LSUN/test', received none",
    ),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_archives(publish, problem):
    members, options, message = BAD[problem]
    folder = publish("odin_lsun_crop", members, **options)
    with pytest.raises(data.ArchiveError, match=message) as error:
        data.load("odin_lsun_crop", "test", folder)
    assert "\n" not in str(error.value)
    # TFDS notes the name of its default configuration; of the dataset itself nothing is there.
    left = {path.name for path in folder.parent.rglob("*") if path.is_file()}
    assert left <= {"LSUN.tar.gz", "metadata.json"}


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_archive_says_what_to_put_where(tmp_path, name):
    archive = odin.ARCHIVES[name.removeprefix("odin_")]
    with pytest.raises(data.MissingDataError) as error:
        data.load(name, "test", tmp_path)
    message = str(error.value)
    assert f"{tmp_path}/downloads/manual: expected {archive.file_name}" in message
    assert f"s2d data {name} --download" in message
    assert "\n" not in message
    assert not list(tmp_path.iterdir())


def test_a_download_is_checked_too(publish, tmp_path, monkeypatch):
    """The download itself is TFDS' business; here a local file stands in for it."""
    folder = publish("odin_lsun_crop", GOOD)
    fetched = tmp_path / "fetched"
    (folder / "downloads" / "manual" / "LSUN.tar.gz").rename(fetched)
    asked = []

    def download(self, url):
        asked.append(url)
        return fetched

    monkeypatch.setattr(tfds.download.DownloadManager, "download", download)
    with pytest.raises(data.MissingDataError):
        data.load("odin_lsun_crop", "test", folder)
    assert not asked
    whole = fetched.read_bytes()
    fetched.write_bytes(whole[:-1])
    with pytest.raises(data.ArchiveError, match="expected MD5"):
        data.fetch("odin_lsun_crop", folder)
    fetched.write_bytes(whole)
    data.fetch("odin_lsun_crop", folder)
    assert asked == [odin.ARCHIVES["lsun_crop"].url] * 2
    np.testing.assert_array_equal(
        data.load_arrays("odin_lsun_crop", "test", folder)[0], [_picture(0)]
    )


def test_published_sums_are_complete():
    assert len({archive.md5 for archive in odin.ARCHIVES.values()}) == 4
    assert all(len(archive.md5) == 32 for archive in odin.ARCHIVES.values())
    assert {f"odin_{name}" for name in odin.ARCHIVES} == set(NAMES)
