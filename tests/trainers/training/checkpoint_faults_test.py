"""Checkpoints survive an exit at any moment of a write, damage, and a full disk."""

import builtins
import concurrent.futures
import errno
import io
import json
import os
import pathlib
import sys

import numpy as np
import pytest

from s2d_tf import files
from s2d_tf.trainers.training import checkpoints
from s2d_tf.zoo import recipes, runs

CRASH = 86


class Value:
    """What checkpoints use of a Keras variable."""

    def __init__(self, path, array):
        self.path, self.array, self.shape = path, np.asarray(array), np.shape(array)

    def numpy(self):
        return self.array

    def assign(self, array):
        self.array = np.array(array)


def state(step):
    """Different values at every step; large enough for several writes."""
    kernel = np.random.default_rng(step).normal(size=(60, 70)).astype(np.float32)
    return [Value("net/dense/kernel", kernel), Value("net/seed/state", np.full(2, step, np.uint32))]


def save(directory, step):
    metrics = [Value("loss/total", np.float32(step) / 3)]
    facts = {"epoch": step, "history": [{"loss": step / 7}]}
    checkpoints.save(directory, step, state(step), facts, keep=2, metrics=metrics)


def restored(directory):
    """The step that a directory holds, after comparing every bit with what was saved there."""
    variables = state(0)
    held = checkpoints.restore(directory, variables)
    if held is None:
        return None
    step = held["step"]
    for variable, expected in zip(variables, state(step), strict=True):
        np.testing.assert_array_equal(variable.array, expected.array)
    assert held["history"] == [{"loss": step / 7}]
    assert held["metrics"] == [np.float32(step) / 3]
    return step


class CountedFile:
    """A file whose writes count; the one that is to crash reaches the disk by half."""

    def __init__(self, file, count):
        self._file, self._count = file, count

    def write(self, data):
        self._count("write", lambda: (self._file.write(data[: len(data) // 2]), self._file.flush()))
        return self._file.write(data)

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *args):
        return self._file.__exit__(*args)

    def __getattr__(self, name):
        return getattr(self._file, name)


def crash_after(number):
    """Ends this process at its `number`-th operation on files, before that is done."""
    seen = []

    def count(name, before_exit=lambda: None):
        seen.append(name)
        if len(seen) == number:
            before_exit()
            os.write(1, f"{number} {name}\n".encode())
            os._exit(CRASH)

    def counted(function):
        def call(*args, **kwargs):
            count(function.__name__)
            return function(*args, **kwargs)

        return call

    for name in ("open", "fsync", "rename", "replace", "mkdir", "rmdir", "unlink"):
        setattr(os, name, counted(getattr(os, name)))
    original = io.open

    def open_file(path, mode="r", *args, **kwargs):
        count("open")
        file = original(path, mode, *args, **kwargs)
        return CountedFile(file, count) if "w" in mode else file

    io.open = builtins.open = open_file


def crash_everywhere(directory):
    """For each operation of a checkpoint's write, a process that ends there; checks what is left.

    Forks, so it runs in a process without TensorFlow and its threads. What is on the disk and what
    only in the system's memory makes no difference to a process that ends, so nothing waits for
    the disk.
    """
    os.fsync = lambda descriptor: None
    os.fsync.__name__ = "fsync"
    for number in range(1, 1000):
        folder = pathlib.Path(directory) / str(number)
        for step in (1, 2):
            save(folder, step)
        child = os.fork()
        if child == 0:
            crash_after(number)
            save(folder, 3)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert restored(folder) in ((2, 3) if code == CRASH else (3,)), number
        save(folder, 3)
        save(folder, 4)
        assert restored(folder) == 4
        names = sorted(path.name for path in folder.iterdir())
        assert names == ["step_000000003", "step_000000004"], (number, names)
        if code != CRASH:
            assert code == 0, code
            return number - 1
    raise AssertionError("the write never ended")


def test_an_exit_at_any_operation_leaves_a_whole_checkpoint(tmp_path, run_python):
    done = run_python(__file__, tmp_path)
    assert done.returncode == 0, done.stderr
    *crashes, last = done.stdout.splitlines()
    kinds = {line.split()[1] for line in crashes}
    assert {"open", "write", "fsync", "rename", "replace", "mkdir"} <= kinds
    assert int(last) == len(crashes) > 20


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "arrays.safetensors").write_bytes(b""),
        lambda folder: (folder / "arrays.safetensors").unlink(),
        lambda folder: (folder / "manifest.json").unlink(),
        lambda folder: (folder / "manifest.json").write_text("{"),
        lambda folder: (folder / "manifest.json").write_text("[]"),
        lambda folder: flip(folder / "arrays.safetensors", 5000),
        lambda folder: flip(folder / "manifest.json", 40),
        lambda folder: os.truncate(folder / "arrays.safetensors", 9000),
        lambda folder: edit(folder / "manifest.json", '"epoch": 2', '"epoch": 1'),
    ],
)
def test_a_damaged_newest_checkpoint_falls_back_and_says_so(tmp_path, caplog, damage):
    save(tmp_path, 1)
    save(tmp_path, 2)
    damage(tmp_path / "step_000000002")
    with caplog.at_level("WARNING", logger="absl"):
        assert restored(tmp_path) == 1
    assert "step_000000002 is damaged, trying the one before" in caplog.text
    save(tmp_path, 2)  # the run comes to the same step again, and replaces it
    assert restored(tmp_path) == 2
    assert not list(tmp_path.glob(f"{files.PARTIAL}*"))


def flip(path, position):
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def edit(path, old, new):
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_when_all_are_damaged_a_person_decides(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "step_000000001" / "arrays.safetensors").write_bytes(b"")
    with pytest.raises(checkpoints.CheckpointError, match="step_000000001"):
        restored(tmp_path)
    assert checkpoints.newest(tmp_path) is None


def test_a_checkpoint_of_a_newer_release_is_not_guessed_at(tmp_path):
    save(tmp_path, 1)
    path = tmp_path / "step_000000001" / "manifest.json"
    edit(path, f'"format": {checkpoints.FORMAT}', '"format": 99')
    with pytest.raises(checkpoints.CheckpointError):
        restored(tmp_path)


def test_arrays_of_another_shape_are_refused_before_they_are_read(tmp_path):
    save(tmp_path, 1)
    wrong = state(0)
    wrong[0] = Value("net/dense/kernel", np.zeros((60, 71), np.float32))
    with pytest.raises(checkpoints.CheckpointError, match=r"\(60, 71\), received .*\(60, 70\)"):
        checkpoints.restore(tmp_path, wrong)


def test_objects_are_never_read(tmp_path):
    save(tmp_path, 1)
    folder = tmp_path / "step_000000001"
    objects = {
        "00000/net/dense/kernel": np.full((60, 70), None),
        "00001/net/seed/state": np.zeros(2),
    }
    with open(folder / "arrays.safetensors", "wb") as file:
        np.savez(file, **objects)
    manifest = files.read_json(folder / "manifest.json")
    manifest.pop("checksum")
    manifest["sha256"]["arrays.safetensors"] = files.sha256(folder / "arrays.safetensors")
    manifest["checksum"] = checkpoints._checksum(manifest)  # As somebody with bad intent would.
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(checkpoints.CheckpointError, match="expected a header of at most"):
        checkpoints.restore(tmp_path, state(0))


@pytest.fixture
def run(tmp_path):
    return runs.Run.create(tmp_path / "run", recipes.resolve("wrn_10_2_s2.s2d.digits"), 0)


@pytest.fixture
def failures():
    """Not imported above: it brings TensorFlow, and this file also runs as a program without."""
    from s2d_tf.trainers.training import failures

    return failures


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_is_one_line_and_the_last_checkpoint_stays(run, monkeypatch, code, failures):
    folder = run.directory / "checkpoints"
    save(folder, 1)

    def full(*args, **kwargs):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(pathlib.Path, "write_bytes", full)
    with (
        pytest.raises(failures.DiskFullError) as stopped,
        failures.explained(run),
        checkpoints.Writer(folder) as writer,
    ):
        writer.write(2, checkpoints.collect(state(2)), {})
    text = str(stopped.value)
    assert "\n" not in text
    assert os.strerror(code) in text
    assert "checkpoint of step 1 is whole" in text
    assert not list(folder.glob(f"{files.PARTIAL}*"))
    assert restored(folder) == 1


def test_other_errors_of_the_disk_stay_what_they_are(run, failures):
    with pytest.raises(FileNotFoundError), failures.explained(run):
        (run.directory / "nowhere").read_bytes()


def test_a_failed_write_is_noticed_at_the_next_step(tmp_path, monkeypatch):
    def broken(*args, **kwargs):
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(pathlib.Path, "write_bytes", broken)
    with checkpoints.Writer(tmp_path) as writer:
        writer.write(1, checkpoints.collect(state(1)), {})
        concurrent.futures.wait([writer._running])
        with pytest.raises(OSError, match="broken"):
            writer.check()
        writer.check()  # said once


def test_leftovers_of_killed_processes_are_swept(run):
    folder = run.directory / "checkpoints" / f"{files.PARTIAL}step_000000007"
    folder.mkdir(parents=True)
    (folder / "arrays.safetensors").write_bytes(b"half")
    leftover = run.directory / f"{files.PARTIAL}12ab_final.safetensors"
    leftover.write_bytes(b"half")
    files.sweep(run.directory)
    assert not folder.exists()
    assert not leftover.exists()
    assert (run.directory / "recipe.json").exists()


if __name__ == "__main__":
    print(crash_everywhere(sys.argv[1]))
