"""A folder of images as a dataset: splits, shapes, pixels, and errors that name the file."""

import os
import shutil

import numpy as np
import pytest
from PIL import Image

from s2d_tf import data
from s2d_tf.data import image_files

CLASSES = {"ant": 20, "bee": 10, "cat": 3}


def picture(seed, size=(8, 8), mode="RGB"):
    """A smooth picture, as photographs are."""
    rng = np.random.default_rng(seed)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return coarse.resize(size[::-1], Image.BICUBIC).convert(mode)


def fill(folder, classes=CLASSES, suffix=".png", first=0, **options):
    folder.mkdir(parents=True, exist_ok=True)
    for name, count in classes.items():
        (folder / name).mkdir()
        for i in range(count):
            first += 1
            picture(first, **options).save(folder / name / f"{i:03}{suffix}")
    return folder


@pytest.fixture
def flat(tmp_path):
    return fill(tmp_path / "My Pets!")


def names(opened, split):
    return {f"{path.parent.name}/{path.name}" for path, _ in opened.files[split]}


def test_the_splits_of_a_folder_without_any(flat):
    opened = data.open_folder(flat)
    assert opened.class_names == ("ant", "bee", "cat")
    assert opened.name == "my_pets"
    train, test, validation, rest = (
        names(opened, split)
        for split in ("train", "test", "validation", "train_without_validation")
    )
    assert train | test == {f"{p.parent.name}/{p.name}" for p in flat.rglob("*.png")}
    assert not train & test
    assert validation | rest == train
    assert not validation & rest
    counts = {
        split: [sum(label == i for _, label in opened.files[split]) for i in range(3)]
        for split in opened.files
    }
    # A fifth, and a tenth of the rest; at least one, but never the last of a class.
    assert counts["test"] == [4, 2, 1]
    assert counts["validation"] == [2, 1, 1]
    assert counts["train_without_validation"] == [14, 7, 1]


def test_the_splits_are_of_the_content(flat, tmp_path):
    copied = tmp_path / "copy"
    shutil.copytree(flat, copied)
    renamed = {}
    for path in sorted(copied.rglob("*.png")):
        new = path.with_name(f"{1000 - int(path.stem)}.png")
        renamed[f"{path.parent.name}/{new.name}"] = f"{path.parent.name}/{path.name}"
        path.rename(new)
    first, second = data.open_folder(flat), data.open_folder(copied, image_size=20)
    for split in first.files:
        assert {renamed[name] for name in names(second, split)} == names(first, split)


def test_arrays_are_the_pixels_of_the_files(flat):
    opened = data.open_folder(flat)
    images, labels = opened.load_arrays("train")
    assert opened.image_shape == images.shape[1:] == (8, 8, 3)
    assert (images.dtype, labels.dtype) == (np.uint8, np.int64)
    for image, label, (path, expected) in zip(images, labels, opened.files["train"], strict=True):
        np.testing.assert_array_equal(image, np.asarray(Image.open(path)))
        assert opened.class_names[label] == path.parent.name == opened.class_names[expected]
    assert not images.flags.writeable


@pytest.mark.parametrize("name", ["validation", "val"])
def test_a_folder_with_splits(tmp_path, name):
    root = tmp_path / "pets"
    fill(root / "train")
    fill(root / "test", {"ant": 2, "bee": 2}, first=100)
    fill(root / name, {"ant": 1, "cat": 2}, first=200)
    opened = data.open_folder(root)
    assert {split: len(files) for split, files in opened.files.items()} == {
        "train": 33, "test": 4, "validation": 3, "train_without_validation": 33
    }  # fmt: skip
    assert [label for _, label in opened.files["validation"]] == [0, 2, 2]
    assert opened.load_arrays("validation")[0].shape == (3, 8, 8, 3)


@pytest.mark.parametrize(
    ("sizes", "size", "mode", "expected"),
    [
        ([(20, 12)], None, "RGB", (20, 12, 3)),
        ([(65, 20)], None, "RGB", (32, 32, 3)),
        ([(20, 12), (21, 12)], None, "RGB", (32, 32, 3)),
        ([(20, 12), (21, 12)], 16, "RGB", (16, 16, 3)),
        ([(20, 12)], None, "L", (20, 12, 1)),
        ([(20, 12)], None, "P", (20, 12, 3)),
    ],
)
def test_the_shape_that_images_get(tmp_path, sizes, size, mode, expected):
    for i, own in enumerate(sizes * 2):
        fill(tmp_path / "set", {f"class {i}": 2}, first=10 * i, size=own, mode=mode)
    opened = data.open_folder(tmp_path / "set", size)
    assert opened.image_shape == expected
    assert opened.load_arrays("train")[0].shape[1:] == expected


@pytest.mark.parametrize("suffix", [".png", ".jpg", ".JPEG"])
def test_images_are_resized_without_aliasing(tmp_path, suffix):
    """Pillow reduces with a triangle filter over all pixels, too."""
    root = tmp_path / "set"
    fill(root, {"a": 3, "b": 3}, suffix, size=(90, 70))
    checkers = 255 * (np.indices((90, 70)).sum(axis=0) % 2).astype(np.uint8)
    Image.fromarray(np.stack([checkers] * 3, axis=-1)).save(root / "a" / f"checkers{suffix}")
    opened = data.open_folder(root, image_size=16)
    for split in ("train", "test"):
        for image, (path, _) in zip(opened.load_arrays(split)[0], opened.files[split], strict=True):
            expected = Image.open(path).convert("RGB").resize((16, 16), Image.BILINEAR)
            difference = np.abs(image.astype(int) - np.asarray(expected, dtype=int))
            assert difference.max() <= 3, path
            assert difference.mean() < 1, path


def test_other_files_do_not_count_and_files_come_in_the_order_of_their_paths(flat):
    for name in (".DS_Store", "ant/._000.png", "ant/Thumbs.db", "README.md"):
        (flat / name).write_bytes(b"x")
    for name in (".hidden", "bee/000"):
        (flat / name).mkdir()
        picture(500).save(flat / name / "z.jpg")
    found = list(image_files.find(flat))
    assert found == sorted(p for p in flat.rglob("*.*g") if "/." not in str(p))
    opened = data.open_folder(flat)
    assert sum(len(opened.files[split]) for split in ("train", "test")) == len(found) == 34


@pytest.mark.parametrize("keep_time", [False, True])
def test_a_changed_file_is_read_again(flat, keep_time):
    opened = data.open_folder(flat)
    before, _ = opened.load_arrays("train")
    path, _ = opened.files["train"][0]
    time = path.stat().st_mtime_ns
    picture(999, (20, 20)).save(path)  # of another size
    if keep_time:
        os.utime(path, ns=(time, time))
    after, _ = opened.load_arrays("train")
    assert not (before[0] == after[0]).all()
    np.testing.assert_array_equal(before[1:], after[1:])


def truncated(path):
    content = path.read_bytes()
    path.write_bytes(content[: -len(content) // 5])


@pytest.mark.parametrize(
    ("suffix", "damage", "reason"),
    [
        (".png", truncated, "damaged"),
        (".jpg", truncated, "damaged"),
        (".png", lambda path: path.write_bytes(b""), "empty"),
        (".png", lambda path: path.write_text("no picture"), "not an image"),
        (".jpg", lambda path: picture(0).save(path, "GIF"), "GIF"),
    ],
)
def test_unreadable_files_are_named(tmp_path, suffix, damage, reason):
    root = fill(tmp_path / "set", suffix=suffix, size=(40, 40))
    bad = sorted((root / "bee").iterdir())[:7]
    for path in bad:
        damage(path)
    with pytest.raises(data.FolderError) as caught:
        data.open_folder(root).load_arrays("train")
    message = str(caught.value)
    assert f"({reason})" in message
    assert "\n" not in message
    if reason != "damaged":  # Those are found when a split is decoded, the others at once.
        assert "received 7 other files" in message
        assert message.count(str(root / "bee")) == 5
    picture(0).save(root / "ant" / "new.webp")  # Other formats are not passed over.
    with pytest.raises(data.FolderError, match=r"received 1 other files: .*new\.webp"):
        data.open_folder(root)


@pytest.mark.parametrize(
    ("splits", "message"),
    [
        ({}, "expected a folder of images, received none"),
        ({".": {}}, "received no subfolder"),
        ({".": {"ant": 2, "bee": 0}}, "images per class, received no image in bee"),
        ({".": {"ant": 2}}, "expected at least two classes, received only 'ant'"),
        ({".": {"ant": 2}, "train": {"ant": 2, "bee": 1}}, "splits .* received ant, train"),
        ({"train": CLASSES, "test": {"dog": 2}}, "the classes ant, bee, cat, received dog"),
        (
            {"train": CLASSES, "val": {"ant": 1}, "validation": {"ant": 1}},
            "received train, val, validation",
        ),
        ({"train": CLASSES, "more": {"ant": 1}}, "only the splits .* received more, train"),
    ],
)
def test_folders_that_are_no_dataset(tmp_path, splits, message):
    root = tmp_path / "pets"
    for split, classes in splits.items():
        fill(root / split, classes)
    with pytest.raises((data.FolderError, data.MissingDataError), match=message) as caught:
        data.open_folder(root)
    assert str(caught.value).startswith(str(root))
    assert "\n" not in str(caught.value)


def test_a_model_decides_shape_and_classes(flat):
    shutil.rmtree(flat / "bee")
    known = ("zebra", "cat", "bee", "ant")
    opened = data.open_folder(flat, image_shape=(6, 5, 1), class_names=known)
    images, labels = opened.load_arrays("test")
    assert images.shape[1:] == (6, 5, 1)
    assert set(labels) == {1, 3}
    with pytest.raises(data.FolderError, match="expected the classes zebra, cat, received ant"):
        data.open_folder(flat, class_names=("zebra", "cat"))
    with pytest.raises(data.FolderError, match="received 'val' with none"):
        opened.load_arrays("val")


def test_all_images_of_a_folder_are_out_of_distribution_data(flat, tmp_path):
    picture(700, (30, 10)).save(flat / "top.jpg")
    assert data.load_images(flat, (8, 8, 3)).shape == (34, 8, 8, 3)
    truncated(flat / "top.jpg")
    with pytest.warns(UserWarning, match=r"skipped 1 files: .*top\.jpg \(damaged\)"):
        assert len(data.load_images(flat, (8, 8, 3))) == 33
    (tmp_path / "nothing").mkdir()
    with pytest.raises(data.FolderError, match="expected JPEG or PNG images, received none"):
        data.load_images(tmp_path / "nothing", (8, 8, 3))
