"""Checkpoints survive an exit at any moment of a write, damage and hostile files."""

import builtins
import hashlib
import io
import json
import os
import pathlib
import random
import sys

import numpy as np
import pytest

from s2d_tf import files
from s2d_tf.trainers.training import checkpoints

CRASH = 86
ARRAYS, MANIFEST = "arrays.safetensors", "manifest.json"


class Value:
    """What checkpoints use of a Keras variable. This file also runs as a program without Keras."""

    def __init__(self, path, array):
        self.path, self.array = path, np.asarray(array)
        self.shape, self.dtype = self.array.shape, self.array.dtype.name

    def numpy(self):
        return self.array

    def assign(self, array):
        self.array = np.array(array)


def state(step, shape=(60, 70), name="kernel"):
    """Different values at every step; large enough for several writes."""
    kernel = np.random.default_rng(step).normal(size=shape).astype(np.float32)
    return [
        Value(f"net/dense/{name}", kernel),
        Value("net/seed/state", np.full(2, step, np.uint32)),
        Value("net/iteration", np.int64(step)),
    ]


def save(directory, step):
    arrays = checkpoints.collect(state(step), [Value("loss/total", np.float32(step) / 3)])
    facts = {"epoch": step, "history": [{"loss": step / 7}]}
    checkpoints.write(directory, step, arrays, facts, keep=2)


def assert_same(variables, others):
    for variable, other in zip(variables, others, strict=True):
        np.testing.assert_array_equal(variable.array, other.array)
        assert variable.array.dtype == other.array.dtype


def restored(directory):
    """The step that a directory holds, after comparing every bit with what was saved there."""
    variables = state(0)
    held = checkpoints.restore(directory, variables)
    if held is None:
        assert_same(variables, state(0))
        return None
    step = held["step"]
    assert_same(variables, state(step))
    assert (held["epoch"], held["history"]) == (step, [{"loss": step / 7}])
    assert held["metrics"] == [np.float32(step) / 3]
    return step


def assert_rejected(directory, match, variables=None):
    """Restoring raises one line, and changes nothing."""
    variables = variables or state(0)
    before = [Value(v.path, v.array) for v in variables]
    with pytest.raises(checkpoints.CheckpointError, match=match) as error:
        checkpoints.restore(directory, variables)
    assert "\n" not in str(error.value)
    assert_same(variables, before)


def test_what_was_saved_comes_back_and_old_ones_go(tmp_path):
    assert restored(tmp_path / "none") is None
    for step in (1, 20, 300, 4000):
        save(tmp_path, step)
        assert restored(tmp_path) == checkpoints.newest(tmp_path)[1]["step"] == step
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["step_000000300", "step_000004000"]


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


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(folder, arrays=None, **changes):
    """Other arrays or facts in the place of one, under checksums that fit: an attack, not damage.

    The checksum is that of `manifest.json` itself, so this follows the format and not the code.
    """
    path = folder / MANIFEST
    manifest = files.read_json(path) | changes
    manifest.pop("checksum")
    if arrays is not None:
        (folder / ARRAYS).write_bytes(arrays)
        manifest["sha256"] = {ARRAYS: files.sha256(folder / ARRAYS)}
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    checksum = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(manifest | {"checksum": checksum}))


DAMAGE = {
    "a flipped bit": lambda folder: flip(folder / ARRAYS),
    "cut arrays": lambda folder: os.truncate(folder / ARRAYS, 9000),
    "empty arrays": lambda folder: (folder / ARRAYS).write_bytes(b""),
    "no arrays": lambda folder: (folder / ARRAYS).unlink(),
    "no manifest": lambda folder: (folder / MANIFEST).unlink(),
    "an empty manifest": lambda folder: (folder / MANIFEST).write_text(""),
    "another manifest": lambda folder: (folder / MANIFEST).write_text("[]"),
    "a deep manifest": lambda folder: (folder / MANIFEST).write_text("[" * 10**5),
    "an edited fact": lambda folder: (folder / MANIFEST).write_text(
        (folder / MANIFEST).read_text().replace('"epoch"', '"Epoch"')
    ),
    "another format": lambda folder: rewrite(folder, format=99),
    "facts that are none": lambda folder: rewrite(folder, facts=[["epoch", 1]]),
    "a step before the first": lambda folder: rewrite(folder, step=-1),
    "a step that is no number": lambda folder: rewrite(folder, step=True),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_one_is_passed_over_and_all_damaged_is_an_error(tmp_path, caplog, damage):
    for step in (1, 2):
        save(tmp_path, step)
    DAMAGE[damage](tmp_path / "step_000000002")
    with caplog.at_level("WARNING", logger="absl"):
        assert restored(tmp_path) == 1
    assert "step_000000002 is damaged, trying the one before" in caplog.text
    DAMAGE[damage](tmp_path / "step_000000001")
    assert_rejected(tmp_path, "received only damaged ones .*step_000000001")
    assert checkpoints.newest(tmp_path) is None
    save(tmp_path, 2)  # the run comes to the same step again, and replaces it
    assert restored(tmp_path) == 2
    assert not list(tmp_path.glob(f"{files.PARTIAL}*"))


@pytest.mark.parametrize(
    "other",
    [state(0, shape=(60, 71)), state(0, name="other"), state(0)[:2], [*state(0), *state(0)]],
    ids=["shape", "name", "fewer", "more"],
)
def test_another_model_is_rejected_and_its_checkpoint_kept(tmp_path, other):
    save(tmp_path, 7)
    assert_rejected(tmp_path, "arrays of this model", other)
    assert restored(tmp_path) == 7


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["<f8", "<c8", "?", "<i2"])
def test_arrays_of_another_type_change_nothing(tmp_path, dtype, which):
    """Whichever array it is: those before it are not assigned, either."""
    save(tmp_path, 7)
    arrays = checkpoints.collect(state(7), [Value("loss/total", np.float32(7))])
    key = list(arrays)[which]
    arrays[key] = np.zeros(arrays[key].shape, dtype)
    rewrite(tmp_path / "step_000000007", files.pack_arrays(arrays))
    assert_rejected(tmp_path, f"{key}.*received")


@pytest.mark.parametrize("attack", [False, True], ids=["damage", "fitting checksums"])
def test_mutated_files_are_rejected_or_whole(tmp_path, mutate, attack):
    """Who can write the arrays can write their checksums too; no such file crashes the reader."""
    save(tmp_path, 1)
    folder = tmp_path / "step_000000001"
    good = {path: path.read_bytes() for path in folder.iterdir()}
    rng, rejected = random.Random(1), 0
    for _ in range(300):
        for path, data in good.items():
            path.write_bytes(data)
        path = folder / (ARRAYS if attack else rng.choice([ARRAYS, MANIFEST]))
        damaged = mutate(good[path], rng)
        rewrite(folder, damaged) if attack else path.write_bytes(damaged)
        variables = state(0)
        try:
            checkpoints.restore(tmp_path, variables)
        except checkpoints.CheckpointError:
            rejected += 1
            assert_same(variables, state(0))
        else:
            assert attack or restored(tmp_path) == 1
    assert rejected > 40 if attack else rejected > 200


if __name__ == "__main__":
    print(crash_everywhere(sys.argv[1]))
