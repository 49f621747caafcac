"""Damaged data archives: refused by name, or read as they were; never in parts."""

import io
import random
import tarfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.data import archives, prepared


def picture(seed, side, encode):
    """Four flat squares: few bytes, so that much of the archive is structure."""
    colors = np.random.RandomState(seed).randint(0, 256, [2, 2, 3]).astype(np.uint8)
    return encode(np.kron(colors, np.ones([side // 2, side // 2, 1], np.uint8))).numpy()


def write_tiny_imagenet(path, compression):
    root, classes = prepared.TINY_IMAGENET.folder, ["n0", "n1"]
    lines = [f"val_{i}.JPEG\t{classes[i]}\t0\t0\t1\t1\n" for i in range(2)]
    members = {
        f"{root}/wnids.txt": "n0\nn1\n",
        f"{root}/val/val_annotations.txt": "".join(lines),
        **{f"{root}/val/images/val_{i}.JPEG": i for i in range(2)},
        **{f"{root}/train/{c}/images/{c}_{i}.JPEG": 2 + i for c in classes for i in range(2)},
    }
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in members.items():
            if isinstance(content, int):
                content = picture(content, 64, tf.io.encode_jpeg)
            file.writestr(name, content)


def write_odin(path):
    with tarfile.open(path, "w:gz") as file:
        for number in range(3):
            content = picture(number, 32, tf.io.encode_png)
            member = tarfile.TarInfo(f"LSUN/test/{number}.png")
            member.size = len(content)
            file.addfile(member, io.BytesIO(content))


class TinyImagenet:
    """The zip file, which is read without a published sum: people keep parts of it."""

    def __init__(self, folder, compression):
        self.path = folder / prepared.TINY_IMAGENET.file_name
        write_tiny_imagenet(self.path, compression)
        self.builder = prepared.TinyImagenet(data_dir=str(folder.parent / "tiny"))

    def read(self):
        return self.builder.read(self.path)


class Odin:
    """A tar file, whatever its sum: to prepare each copy takes too long."""

    def __init__(self, folder):
        self.path = folder / prepared.ODIN["lsun_crop"].file_name
        write_odin(self.path)
        self.builder = prepared.OdinImages(config="lsun_crop", data_dir=str(folder.parent / "odin"))

    def read(self):
        return self.builder.read(self.path)


KINDS = {
    "zip, stored": lambda folder: TinyImagenet(folder, zipfile.ZIP_STORED),
    "zip, deflated": lambda folder: TinyImagenet(folder, zipfile.ZIP_DEFLATED),
    "tar": Odin,
}


def check(archive, mutate, count, seed):
    """Every copy is refused in our words or gives the very pictures; returns how many were."""
    good, expected = archive.path.read_bytes(), archive.read()
    rng, reasons = random.Random(seed), []
    for i in range(count):
        archive.path.write_bytes(mutate(good, rng))
        try:
            received = archive.read()
        except archives.ArchiveError as error:
            reasons.append(str(error))
            continue
        assert received == expected, f"copy {i}"
    assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
    assert [path.name for path in archive.path.parent.iterdir()] == [archive.path.name]
    return len(reasons)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("kind", KINDS)
class TestDamage:
    def test_a_few_hundred_copies(self, tmp_path, mutate, kind):
        archive = KINDS[kind](tmp_path)
        assert 200 < check(archive, mutate, 300, seed=1) <= 300

    @pytest.mark.slow
    def test_ten_thousand_copies(self, tmp_path, mutate, kind):
        archive = KINDS[kind](tmp_path)
        assert 8000 < check(archive, mutate, 10_000, seed=2) <= 10_000
