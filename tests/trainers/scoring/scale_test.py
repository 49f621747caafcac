"""Many inputs through `s2d predict`: killed again and again, and in constant memory."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pyarrow import parquet

from tests.trainers.scoring.conftest import write_records

IMAGES, KILLS = 12_000, 3


@pytest.mark.slow
def test_kills_lose_and_double_nothing(tmp_path, project_root):
    import tensorflow as tf

    random = np.random.default_rng(0)
    pixels = random.integers(0, 256, [500, 32, 32, 3], dtype=np.uint8)
    distinct = [tf.io.encode_png(each).numpy() for each in pixels]
    contents = (distinct[i % len(distinct)] for i in range(IMAGES))
    records = write_records(tmp_path / "x.tfrecord", contents, (i % 100 for i in range(IMAGES)))
    out = tmp_path / "killed.parquet"
    command = [sys.executable, "-m", "s2d_tf", "predict", "wrn_10_2_s2.s2d.cifar100", str(records)]
    parts = out.with_name(f"{out.name}.parts")

    def start():
        return subprocess.Popen(
            [*command, f"--out={out}"], cwd=project_root, stderr=subprocess.DEVNULL
        )

    for _ in range(KILLS):
        process = start()
        # Some time after the next part was begun; the last kills may come while parts are joined.
        seen, deadline = len(list(parts.glob("part-*"))), time.monotonic() + 1800
        while process.poll() is None and len(list(parts.glob("part-*"))) == seen:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(random.uniform(0, 1))
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert start().wait(timeout=7200) == 0
    table = parquet.read_table(out, columns=["input", "target"]).to_pydict()
    assert [int(name.split(":")[1]) for name in table["input"]] == list(range(IMAGES))
    assert table["target"] == [i % 100 for i in range(IMAGES)]
    assert not parts.exists()


MOST_BYTES = """
import pathlib, sys, tracemalloc
from s2d_tf.trainers import scoring
from tests.trainers.scoring.conftest import constant_answers

folder = pathlib.Path(sys.argv[1])
scorer = scoring.Scorer(constant_answers, None, None, "0", "fake")
for lines in (512, 1024, 8192):  # the first imports
    path = folder / f"{lines}.txt"
    path.write_text("".join(f"{i:0999d}\\n" for i in range(lines)))
    tracemalloc.start()
    options = {"batch_size": 64, "part_rows": 256, "progress": False}
    scoring.predict_files(scorer, path, folder / f"{lines}.csv", **options)
    print(tracemalloc.get_traced_memory()[1])
    tracemalloc.stop()
"""


def test_memory_does_not_grow_with_the_inputs(tmp_path, project_root):
    # A process of its own: Python collects cycles less often where other tests have left much.
    command = [sys.executable, "-c", MOST_BYTES, str(tmp_path)]
    found = subprocess.run(command, cwd=project_root, check=True, capture_output=True, text=True)
    _, few, many = map(int, found.stdout.split())
    assert many < few + 500_000  # of 7 MB more
