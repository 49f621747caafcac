"""Tiny ImageNet from small archives in the official layout, and from the real one."""

import zipfile

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data
from s2d_tf.data import tiny_imagenet

WNIDS = ["n03", "n01", "n02"]
ROOT = "tiny-imagenet-200"


def _jpeg(seed, channels=3, side=64):
    shape = [side // 8, side // 8, channels]
    coarse = np.random.RandomState(seed).randint(0, 256, size=shape).astype(np.uint8)
    return tf.io.encode_jpeg(np.kron(coarse, np.ones([8, 8, 1], np.uint8))).numpy()


def _members(count=6, train_images=0):
    """Name to content. Picture i of the validation folder has class i modulo 3."""
    lines = [f"val_{i}.JPEG\t{WNIDS[i % 3]}\t0\t0\t62\t62\n" for i in range(count)]
    members = {f"{ROOT}/wnids.txt": "".join(wnid + "\n" for wnid in WNIDS)}
    members[f"{ROOT}/val/val_annotations.txt"] = "".join(lines)
    members[f"{ROOT}/val/images/"] = ""
    # The official archive is in the order of the names, not of the numbers.
    for i in sorted(range(count), key=str):
        members[f"{ROOT}/val/images/val_{i}.JPEG"] = _jpeg(i)
    for wnid in WNIDS:
        for i in sorted(range(train_images), key=str):
            seed = 1_000 + 100 * WNIDS.index(wnid) + i
            members[f"{ROOT}/train/{wnid}/images/{wnid}_{i}.JPEG"] = _jpeg(seed)
    return members


def _data_dir(tmp_path, members):
    folder = tmp_path / "data"
    (folder / "downloads" / "manual").mkdir(parents=True)
    with zipfile.ZipFile(folder / "downloads" / "manual" / f"{ROOT}.zip", "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return folder


def _decoded(encoded):
    return tf.io.decode_jpeg(encoded, channels=3, dct_method="INTEGER_ACCURATE").numpy()


def test_validation_only(tmp_path):
    members = _members(count=12)
    folder = _data_dir(tmp_path, members)
    originals = [_decoded(members[f"{ROOT}/val/images/val_{i}.JPEG"]) for i in range(12)]
    for name in ("tiny_imagenet_resize", "tiny_imagenet_crop"):
        images, labels = data.load_arrays(name, "test", folder)
        assert images.shape == (12, 32, 32, 3)
        assert labels.tolist() == [0, 1, 2] * 4
        assert data.available_splits(name, folder) == ("test",)
        if name.endswith("resize"):
            blocks = np.stack(originals).reshape(12, 32, 2, 32, 2, 3).astype(int)
            expected = np.floor(blocks.mean(axis=(2, 4)) + 0.5)
        else:
            offsets = tiny_imagenet.crop_offsets(12)
            expected = [
                image[row : row + 32, column : column + 32]
                for image, (row, column) in zip(originals, offsets, strict=True)
            ]
        np.testing.assert_array_equal(images, expected)
        with pytest.raises(data.MissingDataError, match=r"the split 'train' .* received only test"):
            data.load_arrays(name, "train", folder)
        with pytest.raises(data.MissingDataError, match="received only test"):
            data.load_arrays(name, "validation", folder)


def test_with_training_pictures(tmp_path):
    members = _members(train_images=11)
    folder = _data_dir(tmp_path, members)
    name = "tiny_imagenet_resize"
    assert set(data.available_splits(name, folder)) == {
        "train", "test", "validation", "train_without_validation",
    }  # fmt: skip
    images, labels = data.load_arrays(name, "train", folder)
    assert labels.tolist() == [0] * 11 + [1] * 11 + [2] * 11
    tenth = _decoded(members[f"{ROOT}/train/n03/images/n03_10.JPEG"]).astype(int)
    expected = np.floor(tenth.reshape(32, 2, 32, 2, 3).mean(axis=(1, 3)) + 0.5)
    np.testing.assert_array_equal(images[10], expected)
    assert np.bincount(data.load_arrays(name, "validation", folder)[1]).tolist() == [1, 1, 1]


def test_grey_pictures_become_rgb(tmp_path):
    members = _members()
    members[f"{ROOT}/val/images/val_1.JPEG"] = _jpeg(1, channels=1)
    images, _ = data.load_arrays("tiny_imagenet_crop", "test", _data_dir(tmp_path, members))
    assert np.ptp(images[1], axis=-1).max() == 0
    assert np.ptp(images[1]) > 0


def test_crops_depend_on_seed_and_index_only_and_cover_all_places():
    offsets = tiny_imagenet.crop_offsets(3_000)
    np.testing.assert_array_equal(tiny_imagenet.crop_offsets(10), offsets[:10])
    assert not np.array_equal(tiny_imagenet.crop_offsets(10, seed=1), offsets[:10])
    for axis in range(2):
        # 33 places, 91 of each expected with standard deviation 9.4.
        counts = np.bincount(offsets[:, axis], minlength=33)
        assert len(counts) == 33
        assert counts.min() > 50
        assert counts.max() < 140


def _corrupt(members):
    return members | {f"{ROOT}/val/images/val_2.JPEG": _jpeg(2)[:300]}


def _without(name):
    return lambda members: {key: value for key, value in members.items() if key != f"{ROOT}/{name}"}


def _with(name, content):
    return lambda members: members | {f"{ROOT}/{name}": content}


_WIDE = tf.io.encode_png(np.zeros([64, 64, 3], np.uint16)).numpy()
BAD = {
    "no class list": (_without("wnids.txt"), "the member 'tiny-imagenet-200/wnids.txt'"),
    "no annotations": (_without("val/val_annotations.txt"), "val_annotations.txt' of the"),
    "missing picture": (
        _without("val/images/val_3.JPEG"),
        r"1 of 6 missing, first '.*val_3\.JPEG'",
    ),
    "extra picture": (
        _with("val/images/val_9.JPEG", _jpeg(9)),
        "1 of 6 not annotated",
    ),
    "unknown class": (_with("wnids.txt", "n03\nn01\n"), "class of .*wnids.txt, received 'n02'"),
    "class list of bytes": (_with("wnids.txt", b"n03\n\xff\n"), "a text in .*wnids.txt"),
    "annotation without a class": (
        _with("val/val_annotations.txt", "val_0.JPEG\n"),
        "a file name and a class in each line .*received 'val_0.JPEG'",
    ),
    "training picture without a number": (
        _with("train/n01/images/first.JPEG", _jpeg(2)),
        r"a name such as .*first\.JPEG'",
    ),
    "damaged": (_corrupt, r"val_2\.JPEG': .*received a damaged one"),
    "16 bits": (_with("val/images/val_2.JPEG", _WIDE), r"val_2\.JPEG': .*16-bit"),
    "not a picture": (_with("val/images/val_2.JPEG", b"hello"), r"val_2\.JPEG': expected a JPEG"),
    "wrong size": (
        _with("val/images/val_2.JPEG", _jpeg(2, side=32)),
        "64x64 pixels, received 32x32",
    ),
    "outside": (_with("../../evil.JPEG", _jpeg(2)), "inside the archive's folder"),
    "class without pictures": (
        _with("train/n01/images/n01_0.JPEG", _jpeg(2)),
        "none of 2 classes, first n03",
    ),
}


@pytest.mark.parametrize("problem", BAD)
def test_bad_archives(tmp_path, problem):
    change, message = BAD[problem]
    folder = _data_dir(tmp_path, change(_members()))
    with pytest.raises(data.ArchiveError, match=message) as error:
        data.load("tiny_imagenet_resize", "test", folder)
    assert "\n" not in str(error.value)
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in left] == [f"{ROOT}.zip"]


def test_truncated_archive(tmp_path):
    folder = _data_dir(tmp_path, _members())
    archive = folder / "downloads" / "manual" / f"{ROOT}.zip"
    archive.write_bytes(archive.read_bytes()[:-1_000])
    with pytest.raises(data.ArchiveError, match="expected a complete zip file"):
        data.load("tiny_imagenet_crop", "test", folder)


@pytest.mark.slow
def test_real_archive(real_data_dir, tmp_path, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))
    fingerprints = set()
    for name in ("tiny_imagenet_resize", "tiny_imagenet_crop"):
        images, labels = data.load_arrays(name, "test", real_data_dir)
        assert images.shape == (10_000, 32, 32, 3)
        np.testing.assert_array_equal(np.bincount(labels), [50] * 200)
        assert 100 < images.mean() < 125
        fingerprints.add(data.fingerprint(images, labels))
    assert len(fingerprints) == 2
