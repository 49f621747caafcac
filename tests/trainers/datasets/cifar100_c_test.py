"""CIFAR-100-C by condition: generated files and the published archive, in small copies."""

import io
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from s2d_tf import data
from s2d_tf.trainers.datasets import cifar100_c
from s2d_tf.trainers.datasets.corruptions import corrupt
from tests.trainers.datasets.conftest import write_archive

COUNT = 6
NAME = "cifar100_c_generated"


def _clean(count=COUNT):
    rng = np.random.default_rng(0)
    coarse = rng.integers(0, 256, (count, 8, 8, 3)).astype(np.uint8)
    return coarse.repeat(4, axis=1).repeat(4, axis=2), np.arange(count, dtype=np.int64)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder whose CIFAR-100 has six test images."""
    images, labels = _clean()
    monkeypatch.setattr(cifar100_c, "_source", lambda data_dir: (images, labels, "digest"))
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "data").mkdir()
    return tmp_path / "data"


def _generated(folder):
    return sorted(path.stem for path in folder.rglob("*.npy") if not path.name.startswith("."))


def test_names_that_are_no_condition(tmp_path):
    message = f"expected one of '{NAME}.fog_.* received '{NAME}.fog_6'"
    with pytest.raises(ValueError, match=message):
        data.info(f"{NAME}.fog_6")
    for name in (NAME, "cifar100_c"):  # All at once is too much to load.
        with pytest.raises(ValueError, match=rf"expected {name} with a condition, such as"):
            data.load_arrays(name, "test", tmp_path)


class TestGenerated:
    def test_one_condition_is_made_on_first_use(self, folder, monkeypatch):
        clean, labels = _clean()
        received, received_labels = data.load_arrays(f"{NAME}.snow_2", "test", folder)
        np.testing.assert_array_equal(received, corrupt(clean, "snow", 2))
        np.testing.assert_array_equal(received_labels, labels)
        assert not received.flags.writeable
        assert _generated(folder) == ["snow_2"]
        # The next process reads the file and computes nothing.
        monkeypatch.setattr(cifar100_c, "corrupt", None)
        again, _ = data.load_arrays(f"{NAME}.snow_2", "test", folder)
        np.testing.assert_array_equal(again, received)
        assert type(again) is np.ndarray

    def test_a_quick_look_has_the_same_images_and_keeps_nothing(self, folder):
        few, labels = cifar100_c.read_first(f"{NAME}.fog_2", 3, folder)
        assert not _generated(folder)
        assert labels.tolist() == [0, 1, 2]
        whole, _ = data.load_arrays(f"{NAME}.fog_2", "test", folder)
        np.testing.assert_array_equal(few, whole[:3])

    @pytest.mark.parametrize("content", [b"", b"\x93NUMPY"])
    def test_damaged_files(self, folder, content):
        path = folder / NAME / cifar100_c.VERSION / "digest" / "fog_1.npy"
        path.parent.mkdir(parents=True)
        path.write_bytes(content)
        with pytest.raises(data.ArchiveError, match=f"^{path}: expected an array of images"):
            data.load_arrays(f"{NAME}.fog_1", "test", folder)

    @pytest.mark.slow
    def test_a_killed_process_continues(self, tmp_path, project_root):
        """SIGKILL while files are being written; then the same bytes as without it."""
        program = (
            "import sys, pathlib, numpy as np\n"
            "from s2d_tf import data\n"
            "from s2d_tf.trainers.datasets import cifar100_c\n"
            "rng = np.random.default_rng(0)\n"
            "images = rng.integers(0, 256, (100, 32, 32, 3)).astype(np.uint8)\n"
            "cifar100_c._source = lambda data_dir: (images, None, 'digest')\n"
            "data.fetch('cifar100_c_generated', sys.argv[1])\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(project_root)}
        killed, whole = tmp_path / "killed", tmp_path / "whole"
        for folder in (killed, whole):
            folder.mkdir()
        command = [sys.executable, "-c", program]
        process = subprocess.Popen([*command, killed], env=environment)
        deadline = time.monotonic() + 120
        while len(_generated(killed)) < 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        before = {path: path.stat().st_mtime_ns for path in killed.rglob("[!.]*.npy")}
        assert 8 <= len(before) < 90
        for folder in (killed, whole):
            subprocess.run([*command, folder], env=environment, check=True)
        assert _generated(killed) == sorted(data.info(NAME).conditions)
        assert all(path.stat().st_mtime_ns == modified for path, modified in before.items())
        for path in whole.rglob("*.npy"):
            assert path.read_bytes() == (killed / path.relative_to(whole)).read_bytes()


@pytest.fixture
def publish(tmp_path, monkeypatch):
    """Writes a small archive in place of the published one, whose MD5 it takes over."""

    def write(arrays, *, md5=None):
        members = {}
        for name, array in arrays.items():
            file = io.BytesIO()
            np.save(file, array)
            members[f"CIFAR-100-C/{name}.npy"] = file.getvalue()
        own = write_archive(tmp_path, "CIFAR-100-C.tar", members)
        monkeypatch.setattr(cifar100_c, "OFFICIAL_MD5", md5 or own)
        return tmp_path

    return write


def _published_arrays(count=4):
    rng = np.random.default_rng(1)
    arrays = {
        name: rng.integers(0, 256, (5 * count, 32, 32, 3)).astype(np.uint8)
        for name in ("fog", "frost")
    }
    return arrays | {"labels": np.tile(np.arange(count, dtype=np.uint8), 5)}


class TestPublished:
    @pytest.mark.parametrize(("corruption", "severity"), [("fog", 1), ("frost", 5)])
    def test_a_severity_is_a_fifth(self, publish, corruption, severity):
        arrays = _published_arrays()
        folder = publish(arrays)
        images, labels = data.load_arrays(f"cifar100_c.{corruption}_{severity}", "test", folder)
        expected = arrays[corruption].reshape(5, 4, 32, 32, 3)[severity - 1]
        np.testing.assert_array_equal(images, expected)
        assert labels.tolist() == [0, 1, 2, 3]
        assert labels.dtype == np.int64
        assert not images.flags.writeable
        data.fetch("cifar100_c", folder)

    def test_missing_and_other_archives_are_rejected(self, publish, tmp_path):
        missing = (
            r"manual: expected CIFAR-100-C\.tar \(2\.9 GB\).*https://zenodo\.org/records/3555552"
        )
        with pytest.raises(data.MissingDataError, match=missing):
            data.fetch("cifar100_c", tmp_path)
        folder = publish(_published_arrays(), md5="0" * 32)
        with pytest.raises(data.ArchiveError, match=r"CIFAR-100-C\.tar: expected MD5 0000.*again"):
            data.load_arrays("cifar100_c.fog_2", "test", folder)
