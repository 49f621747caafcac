"""Training pipelines over replicas and workers."""

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tests.data import numbered
from tests.data.numbered import AUGMENTED


def _global_batches(strategy, dataset):
    """The batches that the replicas see, put together again."""
    batches = []
    for parts in strategy.experimental_distribute_dataset(dataset):
        local = [strategy.experimental_local_results(part) for part in tf.nest.flatten(parts)]
        assert len({len(pieces) for pieces in local}) == 1
        batches.append([np.concatenate([piece.numpy() for piece in pieces]) for pieces in local])
    return batches


class TestReplicas:
    @pytest.mark.parametrize("options", [{}, {"num_heads": 2}])
    def test_two_replicas_share_the_batches_of_one(self, two_replicas, options):
        dataset = numbered.train(start_step=4, **AUGMENTED, **options)
        expected = [tf.nest.flatten(batch) for batch in numbered.numpy(dataset)]
        received = _global_batches(two_replicas, dataset)
        numbered.assert_same(received, expected)

    @pytest.mark.slow
    def test_one_two_and_four_replicas(self, run_python):
        code = """
import numpy as np, tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
from s2d_tf import data
images = np.random.RandomState(5).randint(0, 256, size=[84, 8, 8, 1]).astype(np.uint8)
streams = []
for replicas in (1, 2, 4):
    strategy = tf.distribute.MirroredStrategy([f"CPU:{i}" for i in range(replicas)])
    dataset = data.train_pipeline(images, np.arange(84), batch_size=8, seed=1, epochs=3,
        start_step=7, augmentation="mirror_shift", padding="mean", mean=(100,), num_heads=2)
    stream = []
    for x, y in strategy.experimental_distribute_dataset(dataset):
        x, y = strategy.experimental_local_results(x), strategy.experimental_local_results(y)
        assert len(x) == replicas and {len(part) for part in x} == {8 // replicas}
        stream += [np.concatenate([p.numpy() for p in x]), np.concatenate([p.numpy() for p in y])]
    streams.append(b"".join(part.tobytes() for part in stream))
assert len(streams[0]) > 20_000 and streams[0] == streams[1] == streams[2]
print("equal")
"""
        answer = run_python("-c", code)
        assert answer.stdout.strip() == "equal", answer.stderr[-2000:]

    @pytest.mark.slow
    def test_two_workers_share_each_batch_without_loss_or_repetition(self, project_root):
        code = """
import json, sys
import numpy as np, tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
from s2d_tf import data
images = np.zeros([84, 8, 8, 1], np.uint8)
dataset = data.train_pipeline(images, np.arange(84), batch_size=8, seed=1, epochs=2,
    with_index=True)
steps = []
for _, y in strategy.experimental_distribute_dataset(dataset):
    (local,) = strategy.experimental_local_results(y["index"])
    steps.append(local.numpy().tolist())
print(json.dumps(steps))
"""
        sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(2)]
        workers = [f"127.0.0.1:{s.getsockname()[1]}" for s in sockets]
        for s in sockets:
            s.close()
        processes = []
        for index in range(2):
            task = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", code],
                    cwd=project_root,
                    env={**os.environ, "TF_CONFIG": json.dumps(task)},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
        answers = [process.communicate(timeout=180) for process in processes]
        assert all(process.returncode == 0 for process in processes), answers[0][1][-2000:]
        shares = [json.loads(output.strip().splitlines()[-1]) for output, _ in answers]
        images = np.zeros([84, 8, 8, 1], np.uint8)
        expected = numbered.batches(images, np.arange(84), batch_size=8, seed=1, epochs=2)
        assert len(shares[0]) == len(shares[1]) == len(expected)
        for first, second, (_, target) in zip(*shares, expected, strict=True):
            assert len(first) == len(second) == 4
            assert sorted(first + second) == sorted(target["index"])
