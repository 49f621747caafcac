"""A digits run under random kills, damage and a full disk: what is lost is counted."""

import collections
import json
import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys
import time

import pytest

from tests.trainers.training.small_runs import final_state, newest_step

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAME = "wrn_10_2_s2.s2d.digits"
INTERVAL = 4  # steps between checkpoints
STEPS_PER_EPOCH = 5
EPOCHS = 60

# Imports once, then runs the command in a child for each line that it reads: an attempt costs what
# training costs, and is still a process of its own. Nothing of TensorFlow has run before the fork.
# The command has one addition: it notes each step that was done, so that it can be counted what a
# kill undid.
SERVER = """
import json, os, sys
from s2d_tf import cli
from s2d_tf.trainers.training import loop
import keras

class Progress(keras.callbacks.Callback):
    def __init__(self, path):
        super().__init__()
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def on_train_batch_end(self, batch, logs=None):
        os.write(self.file, b"%d\\n" % int(self.model.optimizer.iterations.numpy()))

def run(job):
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1)
    os.dup2(log, 2)
    fit = keras.Model.fit
    def noted_fit(self, *args, callbacks=(), **kwargs):
        return fit(self, *args, callbacks=[Progress(job["progress"]), *callbacks], **kwargs)
    keras.Model.fit = noted_fit
    code = cli.main(job["arguments"])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)

print("ready", flush=True)
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(json.loads(line))
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Trainer:
    """Runs `s2d train` again and again, each time in a new process."""

    def __init__(self):
        environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
        environment |= {"PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "2"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._server.stdout.readline() == "ready\n"

    def start(self, directory):
        """Starts the command; returns its process number."""
        flags = f"--epochs={EPOCHS} --strategy=one_device --checkpoint_steps={INTERVAL}"
        job = {
            "arguments": ["train", NAME, f"--workdir={directory}", *flags.split()],
            "log": str(log_file(directory)),
            "progress": str(progress_file(directory)),
        }
        self._server.stdin.write(json.dumps(job) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())

    def running(self):
        return not select.select([self._server.stdout], [], [], 0.02)[0]

    def wait(self):
        """The exit code of what was started."""
        return int(self._server.stdout.readline())

    def run(self, directory):
        self.start(directory)
        return self.wait()

    def close(self):
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()


def log_file(directory):
    return pathlib.Path(directory).with_suffix(".log")


def progress_file(directory):
    return pathlib.Path(directory).with_suffix(".progress")


def steps_done(directory):
    path = progress_file(directory)
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def everything(directory):
    """All that the last checkpoint holds, and the files that a finished run leaves."""
    weights = (directory / "final.safetensors").read_bytes()
    return *final_state(directory), (directory / "log.csv").read_text(), weights


def damage(directory, dice):
    """Damages the newest of several checkpoints in one of four ways; says which."""
    from s2d_tf.trainers.training import checkpoints

    folders = checkpoints.found(directory / "checkpoints")
    if len(folders) < 2:
        return None
    path = folders[-1] / dice.choice(["arrays.safetensors", "manifest.json"])
    kind = dice.choice(["flipped bit", "truncated", "emptied", "removed"])
    if kind == "removed":
        path.unlink()
        return kind
    data = bytearray(path.read_bytes())
    if kind == "flipped bit":
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    path.write_bytes(data[: {"truncated": len(data) // 2, "emptied": 0}.get(kind, len(data))])
    return kind


def disturbed_run(trainer, directory, kills, seed, damages=0):
    """Trains to the end through random kills; returns what was counted.

    Every attempt is killed at a random moment: before it trains, or after a random number of its
    steps and a random part of the next. The last one may end.
    """
    from s2d_tf.trainers.training import checkpoints

    dice, counts = random.Random(seed), collections.Counter()
    folder = directory / "checkpoints"
    for attempt in range(10 * kills):
        progress_file(directory).unlink(missing_ok=True)
        process = trainer.start(directory)
        left = EPOCHS * STEPS_PER_EPOCH - (newest_step(directory) or 0)
        share = left // max(1, kills - counts["kills"])
        # Some die while they build, restore and trace; near the end all do, or the run would end.
        early = counts["kills"] % 5 == 4 or left <= 2 * INTERVAL
        wanted = 0 if early else dice.randrange(1, max(1, share) + 2)
        pause = (
            dice.uniform(0.0, 3.0 if left > 2 * INTERVAL else 1.0) if early else dice.random() / 8
        )
        while counts["kills"] < kills and trainer.running():
            if len(steps_done(directory)) >= wanted:
                time.sleep(pause)
                os.kill(process, signal.SIGKILL)
                break
        code = trainer.wait()
        done = steps_done(directory)
        if code == 0:
            counts["attempts"] = attempt + 1
            return counts
        assert code == -signal.SIGKILL, log_file(directory).read_text()
        counts["kills"] += 1
        newest = newest_step(directory)
        counts["unreadable"] += bool(checkpoints.found(folder)) and newest is None
        reached = done[-1] if done else newest or 0
        lost = reached - (newest or 0)
        counts["lost steps, most"] = max(counts["lost steps, most"], lost)
        counts["epochs lost beyond the interval"] += max(0, lost - INTERVAL) // STEPS_PER_EPOCH
        if damages and newest and counts["damages"] < damages:
            kind = damage(directory, dice)
            counts["damages"] += kind is not None
    raise AssertionError("the run never ended")


@pytest.fixture(scope="module")
def trainer():
    trainer = Trainer()
    yield trainer
    trainer.close()


@pytest.fixture(scope="module")
def undisturbed(trainer, tmp_path_factory):
    directory = tmp_path_factory.mktemp("undisturbed") / "run"
    assert trainer.run(directory) == 0
    return everything(directory)


@pytest.mark.slow
def test_fifty_random_kills_lose_nothing(trainer, tmp_path, undisturbed):
    counts = disturbed_run(trainer, tmp_path / "run", kills=50, seed=1)
    assert counts["kills"] == 50
    assert counts["unreadable"] == 0
    assert counts["epochs lost beyond the interval"] == 0
    assert counts["lost steps, most"] <= INTERVAL
    assert everything(tmp_path / "run") == undisturbed
    assert not list((tmp_path / "run").rglob(".partial_*"))


@pytest.mark.slow
def test_kills_and_damage_lose_no_more_than_the_damaged_checkpoints(trainer, tmp_path, undisturbed):
    counts = disturbed_run(trainer, tmp_path / "run", kills=8, seed=2, damages=6)
    assert counts["damages"] == 6
    assert counts["unreadable"] == 0
    assert everything(tmp_path / "run") == undisturbed


@pytest.mark.slow
def test_a_full_disk_stops_the_run_and_it_continues(trainer, small_disk, undisturbed):
    directory, ballast = small_disk / "run", small_disk / "ballast"
    ballast.write_bytes(b"\0" * (10 << 20))  # room for two checkpoints, not for three
    assert trainer.run(directory) == 1
    lines = log_file(directory).read_text().splitlines()
    (error,) = [line for line in lines if "s2d train: error:" in line]
    assert re.search("expected room to write.* run the same command again", error)
    assert not any("Traceback" in line for line in lines)
    assert not list((directory / "checkpoints").glob(".partial_*"))
    assert newest_step(directory)
    ballast.unlink()
    assert trainer.run(directory) == 0, log_file(directory).read_text()
    assert everything(directory) == undisturbed
