"""Datasets that are built from published archives, in small copies of their layout."""

import dataclasses
import hashlib
import io
import pathlib
import random
import tarfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf import data
from s2d_tf.data import builders

ODIN = [name for name in data.names() if name.startswith("odin_")]
WNIDS = ["n03", "n01", "n02"]
ROOT = "tiny-imagenet-200"
MANUAL = pathlib.Path("downloads", "manual")


def picture(seed, side=32, channels=3):
    shape = [side, side, channels]
    return np.random.RandomState(seed).randint(0, 256, size=shape).astype(np.uint8)


def png(pixels):
    return tf.io.encode_png(pixels).numpy()


def jpeg(seed, channels=3, side=64):
    coarse = picture(seed, side // 8, channels)
    return tf.io.encode_jpeg(np.kron(coarse, np.ones([8, 8, 1], np.uint8))).numpy()


def decoded(encoded):
    return tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE").numpy()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Writes a small archive in place of one of ODIN's, whose MD5 it takes over."""

    def write(name, members, md5=None, link=None):
        config = name.removeprefix("odin_")
        archive = builders.ODIN[config]
        path = tmp_path / "data" / MANUAL / archive.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        with tarfile.open(path, "w:gz") as file:
            for member, content in members.items():
                entry = tarfile.TarInfo(member.replace("@", archive.folder))
                entry.size = len(content)
                file.addfile(entry, io.BytesIO(content))
            if link:
                entry = tarfile.TarInfo(link.replace("@", archive.folder))
                entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
                file.addfile(entry)
        md5 = md5 or hashlib.md5(path.read_bytes()).hexdigest()
        monkeypatch.setitem(builders.ODIN, config, dataclasses.replace(archive, md5=md5))
        return tmp_path / "data"

    return write


class TestOdin:
    @pytest.mark.parametrize("name", ODIN)
    def test_pictures_come_in_the_order_of_their_numbers(self, publish, name):
        members = {f"@/{number}.png": png(picture(number)) for number in (10, 2, 0)}
        others = {"@/._0.png": b"mac", "@/.DS_Store": b"mac", "README": b"text"}
        folder = publish(name, members | others, link="@/7.png")
        images, labels = data.load_arrays(name, "test", folder)
        np.testing.assert_array_equal(images, [picture(0), picture(2), picture(10)])
        assert labels.tolist() == [-1, -1, -1]

    def test_larger_and_gray_pictures(self, publish):
        large, gray = picture(1, side=36), picture(2, channels=1)
        folder = publish("odin_lsun_crop", {"@/0.png": png(large), "@/1.png": png(gray)})
        images, _ = data.load_arrays("odin_lsun_crop", "test", folder)
        np.testing.assert_array_equal(images[0], large[2:34, 2:34])
        np.testing.assert_array_equal(images[1], np.repeat(gray, 3, axis=-1))

    def test_another_archive_is_rejected(self, publish):
        folder = publish("odin_lsun_crop", {"@/0.png": png(picture(0))}, md5="0" * 32)
        with pytest.raises(data.ArchiveError, match=r"LSUN\.tar\.gz: expected MD5 0000") as error:
            data.load("odin_lsun_crop", "test", folder)
        assert "\n" not in str(error.value)
        # TFDS notes the name of its default configuration; of the dataset itself nothing is there.
        left = {path.name for path in folder.parent.rglob("*") if path.is_file()}
        assert left <= {"LSUN.tar.gz", "metadata.json"}

    def test_a_download_is_checked_too(self, publish, tmp_path, monkeypatch):
        """The download itself is TFDS' business; here a local file stands in for it."""
        folder = publish("odin_lsun_crop", {"@/0.png": png(picture(0))})
        fetched = tmp_path / "fetched"
        (folder / MANUAL / "LSUN.tar.gz").rename(fetched)
        asked = []

        def download(self, url):
            asked.append(url)
            return fetched

        monkeypatch.setattr(tfds.download.DownloadManager, "download", download)
        with pytest.raises(data.MissingDataError):
            data.load("odin_lsun_crop", "test", folder)
        assert not asked
        complete = fetched.read_bytes()
        fetched.write_bytes(complete[:-1])
        with pytest.raises(data.ArchiveError, match="expected MD5"):
            data.fetch("odin_lsun_crop", folder)
        fetched.write_bytes(complete)
        data.fetch("odin_lsun_crop", folder)
        assert asked == [builders.ODIN["lsun_crop"].url] * 2
        np.testing.assert_array_equal(
            data.load_arrays("odin_lsun_crop", "test", folder)[0], [picture(0)]
        )


def official(count=6):
    """Name to content. Picture i of the validation folder has class i modulo 3."""
    lines = [f"val_{i}.JPEG\t{WNIDS[i % 3]}\t0\t0\t62\t62\n" for i in range(count)]
    members = {f"{ROOT}/wnids.txt": "".join(wnid + "\n" for wnid in WNIDS)}
    members[f"{ROOT}/val/val_annotations.txt"] = "".join(lines)
    members[f"{ROOT}/val/images/"] = ""
    # The official archive is in the order of the names, not of the numbers.
    for i in sorted(range(count), key=str):
        members[f"{ROOT}/val/images/val_{i}.JPEG"] = jpeg(i)
    return members | {f"{ROOT}/train/n01/images/n01_0.JPEG": b"not read"}


def zipped(folder, members, compression=zipfile.ZIP_STORED):
    (folder / MANUAL).mkdir(parents=True)
    with zipfile.ZipFile(folder / MANUAL / f"{ROOT}.zip", "w", compression) as file:
        for name, content in members.items():
            file.writestr(name, content)
    return folder


class TestTinyImagenet:
    def test_the_validation_folder_in_two_sizes(self, tmp_path):
        members = official(count=12)
        folder = zipped(tmp_path, members)
        originals = [decoded(members[f"{ROOT}/val/images/val_{i}.JPEG"]) for i in range(12)]
        blocks = np.stack(originals).reshape(12, 32, 2, 32, 2, 3).astype(int)
        offsets = builders.crop_offsets(12)
        crops = [
            image[row : row + 32, column : column + 32]
            for image, (row, column) in zip(originals, offsets, strict=True)
        ]
        means = np.floor(blocks.mean(axis=(2, 4)) + 0.5)
        for name, expected in (("tiny_imagenet_resize", means), ("tiny_imagenet_crop", crops)):
            images, labels = data.load_arrays(name, "test", folder)
            assert labels.tolist() == [0, 1, 2] * 4
            np.testing.assert_array_equal(images, expected)

    def test_crops_depend_on_seed_and_index_only(self):
        offsets = builders.crop_offsets(300)
        np.testing.assert_array_equal(builders.crop_offsets(10), offsets[:10])
        assert not np.array_equal(builders.crop_offsets(10, seed=1), offsets[:10])
        assert (offsets.min(), offsets.max()) == (0, 32)

    @pytest.mark.parametrize(
        ("name", "content", "message"),
        [
            ("wnids.txt", None, "'tiny-imagenet-200/wnids.txt'"),
            ("val/images/val_3.JPEG", None, r"all pictures, .*val_3\.JPEG'"),
            ("val/images/val_9.JPEG", jpeg(9), r"all pictures, .*val_9\.JPEG'"),
            ("wnids.txt", "n03\nn01\n", "'n02'"),
            ("val/val_annotations.txt", "val_0.JPEG\n", "in the official layout"),
            ("val/images/val_2.JPEG", jpeg(2)[:300], "received a damaged or another one"),
            ("val/images/val_2.JPEG", jpeg(2, side=32), r"64x64 pixels, received .*\[32, 32\]"),
            ("val/images/val_2.JPEG", png(picture(2, 64)), "a JPEG file"),
            ("wnids.txt", bytes(builders.MAX_MEMBER_BYTES + 1), "received 16,777,216"),
        ],
    )
    def test_bad_archives(self, tmp_path, name, content, message):
        members = official() | {f"{ROOT}/{name}": content}
        folder = zipped(tmp_path, {k: v for k, v in members.items() if v is not None})
        with pytest.raises(data.ArchiveError, match=message) as error:
            data.load("tiny_imagenet_resize", "test", folder)
        assert "\n" not in str(error.value)
        left = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert [path.name for path in left] == [f"{ROOT}.zip"]

    @pytest.mark.parametrize(
        ("place", "new", "message"),
        [
            (6, b"\xff", "zip file version"),
            (8, b"\x01", "encrypted"),
            (10, b"\x63", "compression"),
            (16, bytes(8), "expected 12 bytes, received 0"),  # sum and stored size of nothing
            (46, b"T", "no item named"),
        ],
    )
    def test_what_the_index_says_wrongly_is_rejected(self, tmp_path, place, new, message):
        path = zipped(tmp_path, official(1)) / MANUAL / f"{ROOT}.zip"
        content = bytearray(path.read_bytes())
        at = content.index(b"PK\x01\x02") + place
        content[at : at + len(new)] = new
        path.write_bytes(content)
        with pytest.raises(data.ArchiveError, match=message):
            builders.TinyImagenet(data_dir=tmp_path / "tiny").read(path)

    @pytest.mark.filterwarnings("ignore:Duplicate name")
    @pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    @pytest.mark.parametrize("count", [300, pytest.param(10_000, marks=pytest.mark.slow)])
    def test_damaged_copies(self, tmp_path, mutate, compression, count):
        """Every copy is rejected in one line or gives the very pictures."""
        path = zipped(tmp_path, official(2), compression) / MANUAL / f"{ROOT}.zip"
        builder = builders.TinyImagenet(data_dir=tmp_path / "tiny")
        good, expected = path.read_bytes(), builder.read(path)
        rng, reasons = random.Random(count), []
        for i in range(count):
            path.write_bytes(mutate(good, rng))
            try:
                assert builder.read(path) == expected, f"copy {i}"
            except data.ArchiveError as error:
                reasons.append(str(error))
        assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
        assert 0.65 * count < len(reasons) <= count
        assert [each.name for each in path.parent.iterdir()] == [f"{ROOT}.zip"]


class TestCopies:
    def test_a_writable_folder_gets_a_copy_that_tfds_itself_reads(self, tmp_path):
        zipped(tmp_path, official(1))
        images, _ = data.load_arrays("tiny_imagenet_crop", "test", tmp_path)
        assert images.shape == (1, 32, 32, 3)
        (example,) = tfds.load("tiny_imagenet", split="test", data_dir=tmp_path, download=False)
        assert example["image"].shape == (64, 64, 3)
        # The archive is needed no longer.
        (tmp_path / MANUAL / f"{ROOT}.zip").unlink()
        assert len(data.load_arrays("tiny_imagenet_resize", "test", tmp_path)[1]) == 1

    def test_a_read_only_folder_is_served_from_the_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
        answers = []
        for count in (1, 2):
            folder = zipped(tmp_path / f"data{count}", official(count))
            before = sorted(folder.rglob("*"))
            folder.chmod(0o555)
            try:
                answers.append(data.load_arrays("tiny_imagenet_resize", "test", folder)[0])
            finally:
                folder.chmod(0o755)
            # Root could write there; nothing may be touched all the same.
            assert sorted(folder.rglob("*")) == before
        assert list(map(len, answers)) == [1, 2]
        assert len(list((tmp_path / "cache").rglob("dataset_info.json"))) == 2
