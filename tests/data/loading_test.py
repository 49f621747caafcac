"""Where data is looked for, what happens when it is not there, and the real datasets."""

import pathlib
import shutil
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf import data
from s2d_tf.data import location


class TestFolders:
    def test_flag_then_environment_then_default(self, monkeypatch, tmp_path):
        monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
        assert data.resolve_data_dir() == pathlib.Path(tfds.core.constants.DATA_DIR).expanduser()
        monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "environment"))
        assert data.resolve_data_dir() == tmp_path / "environment"
        assert data.resolve_data_dir(tmp_path / "flag") == tmp_path / "flag"
        monkeypatch.chdir(tmp_path)
        assert data.resolve_data_dir("here") == tmp_path / "here"
        assert data.resolve_data_dir("~/there") == pathlib.Path.home() / "there"

    def test_a_folder_without_write_bits_is_left_alone_even_by_root(self, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        assert location.is_writable(folder)
        assert location.is_writable(folder / "not" / "there")
        folder.chmod(0o555)
        assert not location.is_writable(folder)
        assert not location.is_writable(folder / "not" / "there")


class TestMissing:
    @pytest.mark.parametrize("name", ["cifar100", "cifar10", "svhn_cropped"])
    def test_the_message_says_what_to_do(self, tmp_path, name):
        with pytest.raises(data.MissingDataError) as error:
            data.load(name, "test", tmp_path)
        message = str(error.value)
        assert f"{tmp_path}: expected the dataset {name!r}" in message
        assert "--data_dir" in message
        assert f"s2d data {name} --download" in message
        assert "\n" not in message
        assert not list(tmp_path.iterdir())

    def test_the_environment_is_honoured(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
        with pytest.raises(data.MissingDataError, match=str(tmp_path)):
            data.load_arrays("cifar100", "train")

    @pytest.mark.parametrize(
        ("name", "split"),
        [("digits", "val"), ("digits_heldout", "train"), ("odin_lsun_crop", "validation")],
    )
    def test_unknown_splits(self, name, split):
        with pytest.raises(ValueError, match=rf"expected one of .*test.* received '{split}'"):
            data.load(name, split)


class TestLoad:
    def test_dataset_and_arrays_agree(self):
        images, labels = data.load_arrays("digits", "test")
        dataset = data.load("digits", "test")
        assert dataset.element_spec == (
            tf.TensorSpec([8, 8, 1], tf.uint8),
            tf.TensorSpec([], tf.int64),
        )
        assert len(dataset) == len(images)
        received = next(dataset.batch(2_000).as_numpy_iterator())
        np.testing.assert_array_equal(received[0], images)
        np.testing.assert_array_equal(received[1], labels)

    def test_arrays_are_shared_and_cannot_be_changed(self):
        first, labels = data.load_arrays("digits", "validation")
        assert data.load_arrays("digits", "validation")[0] is first
        with pytest.raises(ValueError, match="read-only"):
            first[0] = 0
        with pytest.raises(ValueError, match="read-only"):
            labels[0] = 0


def _tiny_archive(path, seed):
    pixels = np.random.RandomState(seed).randint(0, 256, [64, 64, 3]).astype(np.uint8)
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("tiny-imagenet-200/wnids.txt", "n01\n")
        file.writestr("tiny-imagenet-200/val/val_annotations.txt", "val_0.JPEG\tn01\t0\t0\t1\t1\n")
        jpeg = tf.io.encode_jpeg(pixels).numpy()
        file.writestr("tiny-imagenet-200/val/images/val_0.JPEG", jpeg)


class TestPreparedCopies:
    archive = pathlib.Path("downloads") / "manual" / "tiny-imagenet-200.zip"

    def test_a_writable_folder_gets_a_copy_that_tfds_itself_reads(self, tmp_path):
        _tiny_archive(tmp_path / self.archive, seed=0)
        images, _ = data.load_arrays("tiny_imagenet_crop", "test", tmp_path)
        assert images.shape == (1, 32, 32, 3)
        (example,) = tfds.load("tiny_imagenet", split="test", data_dir=tmp_path, download=False)
        assert example["image"].shape == (64, 64, 3)
        # The archive is needed no longer.
        (tmp_path / self.archive).unlink()
        assert data.available_splits("tiny_imagenet_crop", tmp_path) == ("test",)

    def test_a_read_only_folder_is_served_from_the_cache(self, tmp_path, monkeypatch):
        monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
        answers = []
        for seed in (0, 1):
            folder = tmp_path / f"data{seed}"
            _tiny_archive(folder / self.archive, seed)
            before = sorted(folder.rglob("*"))
            folder.chmod(0o555)
            try:
                answers.append(data.load_arrays("tiny_imagenet_resize", "test", folder)[0])
            finally:
                folder.chmod(0o755)
            # Root could write there; nothing may be touched all the same.
            assert sorted(folder.rglob("*")) == before
        assert not np.array_equal(*answers)
        assert len(list((tmp_path / "cache").rglob("dataset_info.json"))) == 2

    @pytest.mark.parametrize("name", ["cifar10", "odin_lsun_crop"])
    def test_nothing_is_fetched_into_a_read_only_folder(self, tmp_path, name):
        folder = tmp_path / "data"
        folder.mkdir()
        folder.chmod(0o555)
        with pytest.raises(
            data.MissingDataError, match=r"to fetch .* to, received a read-only one"
        ):
            data.fetch(name, folder)
        folder.chmod(0o755)
        assert not list(folder.iterdir())

    def test_a_copy_of_another_archive_is_not_used(self, tmp_path):
        first, second = tmp_path / "first", tmp_path / "second"
        for folder, seed in ((first, 0), (second, 1)):
            _tiny_archive(folder / self.archive, seed)
        data.load_arrays("tiny_imagenet_resize", "test", first)
        shutil.copytree(first / "tiny_imagenet", second / "tiny_imagenet")
        with pytest.raises(data.ArchiveError, match="prepared from the tiny-imagenet-200"):
            data.load_arrays("tiny_imagenet_resize", "test", second)


class TestRealData:
    @pytest.mark.parametrize(
        ("name", "sizes"), [("cifar100", {100}), ("svhn_cropped", set(range(1_500, 5_200)))]
    )
    def test_test_split(self, real_data_dir, name, sizes):
        record = data.info(name)
        images, labels = data.load_arrays(name, "test", real_data_dir)
        assert images.shape == (record.splits["test"], *record.image_shape)
        assert images.dtype == np.uint8
        counts = np.bincount(labels)
        assert len(counts) == record.num_classes
        assert set(counts) <= sizes

    def test_class_names_are_those_of_the_files(self, real_data_dir):
        names = tfds.builder("cifar100", data_dir=real_data_dir).info.features["label"].names
        assert tuple(names) == data.info("cifar100").class_names

    def test_svhn_without_training_images(self, real_data_dir):
        if "train" in data.available_splits("svhn_cropped", real_data_dir):
            pytest.skip("this copy of SVHN has its training images")
        with pytest.raises(data.MissingDataError, match=r"the split 'train' .* received only test"):
            data.load("svhn_cropped", "train", real_data_dir)

    @pytest.mark.slow
    def test_cifar100_training_split_and_validation(self, real_data_dir):
        images, labels = data.load_arrays("cifar100", "train", real_data_dir)
        assert images.shape == (50_000, 32, 32, 3)
        np.testing.assert_array_equal(np.bincount(labels), [500] * 100)
        # The means that the DenseNet authors subtract.
        np.testing.assert_allclose(images.mean(axis=(0, 1, 2)), [129.3, 124.1, 112.4], atol=0.1)
        held_out = data.load_arrays("cifar100", "validation", real_data_dir)
        rest = data.load_arrays("cifar100", "train_without_validation", real_data_dir)
        np.testing.assert_array_equal(np.bincount(held_out[1]), [50] * 100)
        np.testing.assert_array_equal(np.bincount(rest[1]), [450] * 100)
        both = [np.concatenate(pair) for pair in zip(held_out, rest, strict=True)]
        assert data.fingerprint(*both) == data.fingerprint(images, labels)
