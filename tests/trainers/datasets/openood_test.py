"""The near and far sets of OpenOOD v1.5, from small archives in the official layout."""

import dataclasses
import io

import numpy as np
import pytest
from PIL import Image

from s2d_tf import data
from s2d_tf.trainers.datasets import openood
from tests.trainers.datasets.conftest import write_archive

TEXTURES, PLACES, TINY = "openood_textures", "openood_places365", "openood_tiny_imagenet"


def _picture(seed, size=(40, 64), mode="RGB"):
    shape = [size[1] // 8, size[0] // 8] + ([3] if mode == "RGB" else [])
    coarse = np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8)
    return Image.fromarray(coarse).resize(size, Image.Resampling.NEAREST)


def _encoded(picture, kind="JPEG"):
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def _expected(encoded):
    """Resize the shorter side to 32, then cut out the center."""
    image = Image.open(io.BytesIO(encoded)).convert("RGB")
    width, height = image.size
    scale = 32 / min(width, height)
    image = image.resize((int(width * scale), int(height * scale)), Image.Resampling.BILINEAR)
    # torchvision rounds half to even.
    left, top = round((image.width - 32) / 2), round((image.height - 32) / 2)
    return np.asarray(image)[top : top + 32, left : left + 32]


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Writes a small archive in place of a published one, whose MD5 it takes over."""

    def write(name, members):
        config = name.removeprefix("openood_")
        archive = openood.ARCHIVES[config]
        md5 = write_archive(tmp_path / "data", archive.file_name, members)
        monkeypatch.setitem(openood.ARCHIVES, config, dataclasses.replace(archive, md5=md5))
        return tmp_path / "data"

    return write


def test_names_and_published_sizes():
    assert [data.info(name).distance for name in ("cifar10", TINY)] == ["near"] * 2
    far = ("openood_mnist", "svhn_cropped", "openood_textures", PLACES)
    assert [data.info(name).distance for name in far] == ["far"] * 4
    tiny = openood.kept(openood.TINY_IMAGENET_LEFT_OUT, 10_000)
    assert tiny.sum() == data.info(TINY).splits["test"]
    # From the heads of the published lists.
    assert tiny[:3].all()
    assert not tiny[[3, 4, 55]].any()
    places = openood.kept(openood.PLACES365_LEFT_OUT, 36_500)
    assert places.sum() == data.info(PLACES).splits["test"]
    assert places[[10_660, 4_871, 14_941]].all()


@pytest.mark.slow
def test_classes_that_cifar100_has_are_left_out(real_data_dir, tmp_path, monkeypatch):
    """All images of 47 classes and single ones of others; 20 classes are for validation."""
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))
    images, labels = data.load_arrays("openood_tiny_imagenet", "test", real_data_dir)
    assert images.shape == (6_526, 32, 32, 3)
    assert set(labels) == {-1}
    whole, classes = data.load_arrays("tiny_imagenet_resize", "test", real_data_dir)
    tiny = openood.kept(openood.TINY_IMAGENET_LEFT_OUT, 10_000)
    assert np.sum(np.bincount(classes[tiny], minlength=200) == 0) == 47 + 20
    # Bilinear with antialiasing is near the mean of blocks of 2x2.
    assert np.mean(np.abs(images.astype(int) - whole[tiny])) < 6
    assert np.mean(np.abs(images.astype(int) - np.roll(whole[tiny], 1, axis=0))) > 30


def test_all_textures_in_the_order_of_their_names(publish):
    members = {
        "dtd/images/dotted/dotted_0002.jpg": _encoded(_picture(0)),
        "dtd/images/banded/banded_0007.jpg": _encoded(_picture(1, (72, 40))),
        "dtd/images/banded/banded_0001.jpg": _encoded(_picture(2, (48, 48), "L")),
    }
    others = {"dtd/images/dotted/.directory": b"x", "dtd/labels/train1.txt": b"x"}
    images, labels = data.load_arrays(TEXTURES, "test", publish(TEXTURES, members | others))
    expected = [_expected(members[name]) for name in sorted(members)]
    np.testing.assert_array_equal(images, expected)
    assert labels.tolist() == [-1, -1, -1]


def test_places_that_the_protocol_leaves_out(publish):
    keep = openood.kept(openood.PLACES365_LEFT_OUT, 36_500)
    out, inside = np.flatnonzero(~keep)[0] + 1, np.flatnonzero(keep)[[5, 3]] + 1
    members = {
        f"val_256/Places365_val_{number:08}.jpg": _encoded(_picture(int(number), (64, 64)))
        for number in (out, *inside)
    }
    images, _ = data.load_arrays(PLACES, "test", publish(PLACES, members))
    expected = [_expected(members[f"val_256/Places365_val_{n:08}.jpg"]) for n in sorted(inside)]
    np.testing.assert_array_equal(images, expected)


@pytest.mark.parametrize(
    ("name", "needed"),
    [
        (TEXTURES, "expected dtd-r1.0.1.tar.gz"),
        (PLACES, "expected val_256.tar"),
        ("openood_tiny_imagenet", "expected tiny-imagenet-200.zip"),
        ("openood_mnist", "expected the dataset 'mnist'"),
    ],
)
def test_missing_files_are_named(tmp_path, name, needed):
    with pytest.raises(data.MissingDataError, match=needed):
        data.load_arrays(name, "test", tmp_path)
    assert not list(tmp_path.iterdir())
