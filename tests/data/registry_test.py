"""Datasets by name: the records, a dataset of one's own, where it is looked for, `s2d data`."""

import dataclasses
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from s2d_tf import cli, data

OWN = data.DatasetInfo(
    name="own_squares",
    title="My squares",
    splits={"train": 40},
    load=lambda name, split, data_dir: (np.zeros([40, 8, 8, 1], np.uint8), [0, 1] * 20),
)


class TestRecords:
    def test_an_unknown_name_lists_the_near_ones(self):
        with pytest.raises(ValueError, match=r"expected .*'cifar100'.* received 'cifar_100'"):
            data.info("cifar_100")
        with pytest.raises(ValueError, match=r"expected one of .*svhn_cropped"):
            data.load("zzz", "test")
        with pytest.raises(ValueError, match=r"received 'digits\.fog_3'"):
            data.info("digits.fog_3")

    def test_names_need_neither_tensorflow_nor_numpy(self, run_python):
        code = (
            "import sys; from s2d_tf import data; data.info('digits'); data.names(); "
            "print({'tensorflow', 'numpy', 's2d_tf.trainers.datasets'} & set(sys.modules))"
        )
        assert run_python("-c", code).stdout.strip() == "set()"


class TestRegister:
    def test_a_name_is_registered_once(self):
        data.register(OWN)
        data.register(OWN)  # The same again, as when a cell of a notebook is run twice.
        assert "own_squares" in data.names()
        images, labels = data.load_arrays("own_squares", "train")
        assert (images.shape, labels.dtype, len(labels)) == ((40, 8, 8, 1), np.int64, 40)
        assert len(data.load_arrays("own_squares", "validation")[1]) == 4
        with pytest.raises(ValueError, match="a name that is not taken, received 'digits'"):
            data.register(dataclasses.replace(OWN, name="digits"))

    def test_what_load_returns_is_checked_and_not_changed(self):
        arrays = np.zeros([3, 2, 2, 1], np.uint8), np.zeros(3, int)
        splits = {"test": 3, "short": 3}
        made = {"test": arrays, "short": (arrays[0], arrays[1][1:])}
        load = lambda name, split, data_dir: made[split]  # noqa: E731
        data.register(data.DatasetInfo(name="own_zeros", title="", splits=splits, load=load))
        first, _ = data.load_arrays("own_zeros", "test")
        assert (first.flags.writeable, arrays[0].flags.writeable) == (False, True)
        with pytest.raises(ValueError, match=r"one label for each .* \[3, 2, 2, 1\] .* \[2\]"):
            data.load_arrays("own_zeros", "short")


def test_folders_are_those_of_the_flag_then_the_environment(monkeypatch, tmp_path):
    monkeypatch.delenv("TFDS_DATA_DIR", raising=False)
    assert data.resolve_data_dir() == pathlib.Path(tfds.core.constants.DATA_DIR).expanduser()
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path / "environment"))
    assert data.resolve_data_dir() == tmp_path / "environment"
    monkeypatch.chdir(tmp_path)
    assert data.resolve_data_dir("flag") == tmp_path / "flag"
    assert data.resolve_data_dir("~/there") == pathlib.Path.home() / "there"
    monkeypatch.delenv("S2D_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert data.cache_dir() == tmp_path / "xdg" / "s2d_tf"


def test_dataset_and_arrays_agree_and_arrays_cannot_be_changed():
    images, labels = data.load_arrays("digits", "test")
    dataset = data.load("digits", "test")
    assert dataset.element_spec == (tf.TensorSpec([8, 8, 1], tf.uint8), tf.TensorSpec([], tf.int64))
    received = next(dataset.batch(2_000).as_numpy_iterator())
    for array, other in zip((images, labels), received, strict=True):
        np.testing.assert_array_equal(array, other)
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    assert data.load_arrays("digits", "test")[0] is images


class TestRealData:
    @pytest.mark.parametrize(
        ("name", "sizes"),
        [("cifar100", {100}), ("cifar10", {1_000}), ("svhn_cropped", set(range(1_500, 5_200)))],
    )
    def test_test_split(self, real_data_dir, name, sizes):
        record = data.info(name)
        images, labels = data.load_arrays(name, "test", real_data_dir)
        shape = (record.splits["test"], *record.image_shape)
        assert (images.shape, images.dtype) == (shape, np.uint8)
        counts = np.bincount(labels)
        assert len(counts) == record.num_classes
        assert set(counts) <= sizes
        names = tfds.builder(name, data_dir=real_data_dir).info.features["label"].names
        assert tuple(names) == record.class_names

    @pytest.mark.slow
    def test_cifar100_training_split_and_validation(self, real_data_dir):
        images, labels = data.load_arrays("cifar100", "train", real_data_dir)
        np.testing.assert_array_equal(np.bincount(labels), [500] * 100)
        # The means that the DenseNet authors subtract.
        np.testing.assert_allclose(images.mean(axis=(0, 1, 2)), [129.3, 124.1, 112.4], atol=0.1)
        parts = [
            data.load_arrays("cifar100", split, real_data_dir)
            for split in ("validation", "train_without_validation")
        ]
        np.testing.assert_array_equal(np.bincount(parts[0][1]), [50] * 100)
        both = [np.concatenate(pair) for pair in zip(*parts, strict=True)]
        assert data.fingerprint(*both) == data.fingerprint(images, labels)


@pytest.mark.usefixtures("leave_no_flags")
def test_the_command_shows_sizes_and_fingerprints(capsys):
    assert cli.main(["data", "digits"]) == 0
    printed = capsys.readouterr().out
    assert f"\nterms     {data.info('digits').terms}\n" in printed
    rows = re.findall(r"^(\w+) +([\d,]+)   ([0-9a-f]{64})$", printed, re.M)
    expected = {}
    for split in ("train", "test", "validation", "train_without_validation"):
        images, labels = data.load_arrays("digits", split)
        expected[split] = (f"{len(images):,}", data.fingerprint(images, labels))
    assert {split: (size, mark) for split, size, mark in rows} == expected


@pytest.mark.usefixtures("leave_no_flags")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digit"], "'digits', received 'digit'"),
        (["digits", "--split=valid"], "received 'valid'"),
        (["digits", "digits_photos"], "expected one dataset"),
        (["cifar100", "--data_dir=DIR"], "DIR: expected the dataset 'cifar100'"),
        (["odin_lsun_crop", "--data_dir=DIR"], "DIR/downloads/manual: expected LSUN.tar.gz"),
        (["clinc150", "--data_dir=DIR"], "DIR/clinc150: expected data_full.json (2.5 MB)"),
    ],
)
def test_errors_of_the_command_are_one_line(capsys, tmp_path, arguments, message):
    arguments = [argument.replace("DIR", str(tmp_path)) for argument in arguments]
    assert cli.main(["data", *arguments]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert error.startswith("s2d data: error: ")
    assert message.replace("DIR", str(tmp_path)) in error
    assert not list(tmp_path.iterdir())
