"""Several workers: agreement within one process; real processes in the slow tier."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import zoo
from s2d_tf.trainers import training
from s2d_tf.trainers.training import checkpoints, strategies
from s2d_tf.zoo import recipes
from tests import contracts
from tests.trainers.training.small_runs import final_state

NAME = "wrn_10_2_s2.s2d.digits"
EPOCHS = 3
# Every replica draws dropout of its own; all else does not depend on how many there are.
SAME = ("model.dropout=0",)
CASES = {
    "plain": ("individual", SAME),
    "s2d": ("s2d", SAME),
    # At the recipe's rate of these two, the third digit hangs on activations that are zero but for
    # rounding: on one replica, too, a nudge of MIMO's first weights by 1e-7 moves the loss by 1e-3
    # and the last weights by 0.08; at this rate by 1e-7 and 5e-7, as any rate does without MIMO.
    "mimo": ("mimo", (*SAME, "training.learning_rate=1e-2")),
    "h2d, teachers in a file": ("h2d_dir", (*SAME, "training.learning_rate=1e-3")),
    "h2d, teachers in the step": ("h2d_gauss", (*SAME, "data.augmentation=mirror_shift")),
}


def test_adapted_fit_equals_keras_fit_and_brings_the_votes():
    strategy = strategies.make("mirrored")
    images = np.random.default_rng(0).normal(size=(24, 5)).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices((images, images[:, :2])).batch(8)
    results = []
    for adapted in (False, True):
        keras.utils.set_random_seed(1)
        with strategy.scope():
            model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(2)])
            model.compile("sgd", "mse", metrics=["mae"])
        team, decisions = strategies.Team(strategy), []
        if adapted:
            team.adapt(model)
        voting = keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs, team=team, seen=decisions: seen.append(
                team.agree(strategies.SAVE if batch == 0 else 0)
            )
        )
        history = model.fit(dataset, epochs=2, verbose=0, callbacks=[voting] * adapted).history
        results.append((history, model.get_weights()))
    (plain, plain_weights), (ours, our_weights) = results
    assert plain.keys() == ours.keys()
    for name in plain:
        np.testing.assert_allclose(ours[name], plain[name], rtol=1e-5)
    contracts.assert_same(our_weights, plain_weights, rtol=1e-5)
    # What is voted after a step counts in the next one, once for each replica.
    assert decisions == [0, strategy.num_replicas_in_sync * strategies.SAVE, 0] * 2


@pytest.mark.parametrize(
    ("text", "message"),
    [("{", "JSON .*received '{'"), ("[]", "JSON"), ("7", "JSON"), ("", "workers")],
)
def test_a_bad_tf_config_is_shown(monkeypatch, text, message):
    monkeypatch.setenv("TF_CONFIG", text)
    with pytest.raises(ValueError, match=f"TF_CONFIG: expected {message}"):
        strategies.make("multi_worker")


def free_ports(count):
    with contextlib.ExitStack() as opened:
        servers = [socket.create_server(("localhost", 0)) for _ in range(count)]
        return [opened.enter_context(server).getsockname()[1] for server in servers]


@contextlib.contextmanager
def started(command, root, log_dir):
    """Two workers of one cluster, gone afterwards; their output is in files."""
    workers = [f"localhost:{port}" for port in free_ports(2)]
    processes = []
    for index in range(2):
        config = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        log = open(log_dir / f"worker_{index}.log", "w")  # noqa: SIM115
        environment = {
            **os.environ,
            "TF_CONFIG": json.dumps(config),
            "PYTHONPATH": str(root),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "CUDA_VISIBLE_DEVICES": "",
        }
        arguments = [sys.executable, *command]
        processes.append(
            subprocess.Popen(arguments, env=environment, stdout=log, stderr=subprocess.STDOUT)
        )
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


def run_to_the_end(command, root, log_dir):
    with started(command, root, log_dir) as processes:
        codes = [process.wait(timeout=600) for process in processes]
    assert codes == [0, 0], (log_dir / "worker_0.log").read_text()


def train_command(directory, *flags, name=NAME, numbers=SAME):
    common = [f"--epochs={EPOCHS}", "--sync_batch_norm", *(f"--set={each}" for each in numbers)]
    return ["-m", "s2d_tf", "train", name, f"--workdir={directory}", *common, *flags]


def train_on_one_replica(directory, name=NAME, numbers=SAME, teachers=None):
    recipe = training.override(recipes.resolve(name), numbers, EPOCHS)
    settings = training.Settings(
        strategy="one_device", synchronized_batch_norm=True, verbose=0, teachers=teachers
    )
    return training.train(recipe, directory, 0, settings)


def wait_for(condition, processes, seconds=300):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited in vain"
        assert all(process.poll() is None for process in processes), "a worker ended too early"
        time.sleep(0.01)


@pytest.fixture(scope="module")
def one_replica(tmp_path_factory):
    return train_on_one_replica(tmp_path_factory.mktemp("one") / "run")


@pytest.fixture(scope="module")
def teachers(tmp_path_factory):
    """Two S2D networks after two epochs, with the snapshot that H2D starts from."""
    recipe = recipes.resolve("wrn_10_2_s2.s2d_ensemble.digits")
    recipe = training.override(recipe, epochs=2, members=2)
    settings = training.Settings(strategy="one_device", verbose=0)
    return training.train(recipe, tmp_path_factory.mktemp("teachers") / "run", 0, settings)


@pytest.mark.slow
class TestTwoWorkers:
    """Real processes on loopback."""

    def assert_equal(self, directory, one_replica):
        run = zoo.Run.open(directory)
        histories = [final_state(r.directory)[1] for r in (run, one_replica)]
        losses = [row["loss"] for row in histories[1]]
        assert np.ptp(losses) > 0.02 * max(losses), "something was learnt"
        for row, expected in zip(*histories, strict=True):
            for name in expected:
                # One label of an epoch's 320 may go either way.
                label = 1 / 320 if "accuracy" in name else 1e-5
                np.testing.assert_allclose(row[name], expected[name], rtol=1e-3, atol=label)
        models = [r.predictor() for r in (run, one_replica)]
        contracts.assert_same(*(m.get_weights() for m in models), rtol=2e-3, atol=2e-4)

    @pytest.mark.parametrize("case", CASES)
    def test_equal_one_replica_and_only_the_chief_writes(
        self, project_root, tmp_path, teachers, case
    ):
        method, numbers = CASES[case]
        how = {"name": f"wrn_10_2_s2.{method}.digits", "numbers": numbers}
        given = str(teachers.directory) if method.startswith("h2d") else None
        flags = [f"--teachers={given}"] if given else []
        command = train_command(tmp_path / "run", *flags, **how)
        run_to_the_end(command, project_root, tmp_path)
        one_replica = train_on_one_replica(tmp_path / "one", **how, teachers=given)
        self.assert_equal(tmp_path / "run", one_replica)
        assert "Epoch" in (tmp_path / "worker_0.log").read_text()
        assert "Epoch" not in (tmp_path / "worker_1.log").read_text()
        assert len(list((tmp_path / "run" / "tensorboard" / "train").iterdir())) == 1

    @pytest.mark.parametrize("victim", [0, 1])
    def test_a_killed_worker_stops_the_others_and_the_job_resumes(
        self, project_root, tmp_path, one_replica, victim
    ):
        directory = tmp_path / "run"
        command = train_command(directory, "--checkpoint_steps=3")
        with started(command, project_root, tmp_path) as processes:
            wait_for(lambda: checkpoints.found(directory / "checkpoints"), processes)
            processes[victim].send_signal(signal.SIGKILL)
            code = processes[1 - victim].wait(timeout=120)
        log = (tmp_path / f"worker_{1 - victim}.log").read_text()
        assert code == 75, log
        assert "from one that is gone" in log
        assert "Start all workers again" in log
        run_to_the_end(command, project_root, tmp_path)
        assert "continuing" in (tmp_path / "worker_0.log").read_text()
        self.assert_equal(directory, one_replica)

    def test_sigterm_to_one_worker_stops_all_at_the_same_step(self, project_root, tmp_path):
        directory = tmp_path / "run"
        command = train_command(directory, "--checkpoint_steps=3")
        with started(command, project_root, tmp_path) as processes:
            wait_for(lambda: checkpoints.found(directory / "checkpoints"), processes)
            processes[1].send_signal(signal.SIGTERM)
            codes = [process.wait(timeout=120) for process in processes]
        logs = [(tmp_path / f"worker_{i}.log").read_text() for i in (0, 1)]
        assert codes == [75, 75], logs
        places = [log.partition("at epoch")[2].partition(", where it is saved")[0] for log in logs]
        assert places[0] == places[1] != ""
        assert "another worker's request" in logs[0]
        assert "SIGTERM" in logs[1]
