"""Many images through `s2d predict`: killed again and again, in constant memory, and fast.

Sizes come from the environment; the defaults are small. The whole of it, on a quiet machine:

    S2D_SCALE_IMAGES=100000 S2D_SCALE_KILLS=10 S2D_SCALE_RATIO=0.8 \
      S2D_SCALE_MODEL=fast_resnet.s2d.cifar100_plus \
      python -m pytest -m slow -s tests/trainers/scoring/scale_test.py

A run directory does as well as a name.
"""

import os
import pathlib
import signal
import subprocess
import sys
import time
import tracemalloc

import numpy as np
import pytest
from pyarrow import parquet

from tests.trainers.scoring.conftest import write_records

NAME = os.environ.get("S2D_SCALE_MODEL", "wrn_10_2_s2.s2d.cifar100")
IMAGES = int(os.environ.get("S2D_SCALE_IMAGES", 12_000))
KILLS = int(os.environ.get("S2D_SCALE_KILLS", 3))
RATIO = float(os.environ.get("S2D_SCALE_RATIO", 0.5))
"""Least share of the model's own throughput; machines that do other work are slower."""
MODEL_IMAGES = min(IMAGES, 8192)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """PNG files of 32 x 32 noise with smooth parts, as large as photographs of that size."""
    import tensorflow as tf

    random = np.random.default_rng(0)
    distinct = []
    for _ in range(min(IMAGES, 1000)):
        coarse = random.integers(0, 256, [8, 8, 3]).repeat(4, axis=0).repeat(4, axis=1)
        pixels = np.clip(coarse + random.integers(-20, 21, [32, 32, 3]), 0, 255)
        distinct.append(tf.io.encode_png(pixels.astype(np.uint8)).numpy())
    path = tmp_path_factory.mktemp("scale") / "images.tfrecord"
    contents = (distinct[i % len(distinct)] for i in range(IMAGES))
    return write_records(path, contents, (i % 100 for i in range(IMAGES)))


def start(records, out, project_root):
    return subprocess.Popen(
        [sys.executable, "-m", "s2d_tf", "predict", NAME, str(records), f"--out={out}"],
        cwd=project_root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process):
    output, errors = process.communicate(timeout=7200)
    assert process.returncode == 0, errors
    assert f"Wrote {IMAGES:,} rows" in output


@pytest.mark.slow
def test_kills_lose_and_double_nothing(records, tmp_path, project_root):
    out, random = tmp_path / "killed.parquet", np.random.default_rng(1)
    parts, killed = out.with_name(f"{out.name}.parts"), 0
    while killed < KILLS:
        process = start(records, out, project_root)
        # Some time after the next part was begun; the last kills may come while parts are joined.
        seen, deadline = len(list(parts.glob("part-*"))), time.monotonic() + 1800
        while process.poll() is None and len(list(parts.glob("part-*"))) == seen:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(random.uniform(0, 1))
        if process.poll() is not None:
            finish(process)
            break
        process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += 1
    finish(start(records, out, project_root))
    assert killed > 0
    table = parquet.read_table(out, columns=["input", "target"]).to_pydict()
    numbers = [int(name.split(":")[1]) for name in table["input"]]
    assert numbers == list(range(IMAGES))
    assert table["target"] == [i % 100 for i in range(IMAGES)]
    assert not parts.exists()


@pytest.mark.slow
def test_throughput_and_memory(records, tmp_path, project_root):
    """Measured in turns with the model alone, in one process."""
    from s2d_tf.trainers import scoring

    scorer = scoring.open_scorer(NAME)
    pixels = np.random.default_rng(0).uniform(0, 255, [256, *scorer.image_shape])
    pixels = pixels.astype(np.float32)

    def model_alone():
        began = time.monotonic()
        for _ in range(0, MODEL_IMAGES, len(pixels)):
            scorer(pixels)
        return MODEL_IMAGES / (time.monotonic() - began)

    model_alone()  # In it, the fastest runtime is found.
    alone = [model_alone()]
    before = memory_megabytes()
    began = time.monotonic()
    scoring.predict_files(scorer, records, tmp_path / "out.parquet", progress=False)
    ours = IMAGES / (time.monotonic() - began)
    grown = memory_megabytes() - before
    alone.append(model_alone())
    print(f"{ours:.0f} images a second; model alone {alone[0]:.0f} and {alone[1]:.0f}; +{grown} MB")
    assert ours >= RATIO * np.mean(alone)
    assert grown < 200


def test_memory_does_not_grow_with_the_inputs(tmp_path):
    """The same in small: lines of text, and a function that answers at once."""
    from s2d_tf.trainers import scoring

    def function(texts):
        ones = np.ones(len(texts), np.float32)
        names = ("confidence", *(f"{n}_uncertainty" for n in ("total", "data", "knowledge")))
        probabilities = np.stack([ones, 0 * ones], axis=-1)
        return {"probabilities": probabilities, "label": 0 * ones} | dict.fromkeys(names, ones)

    scorer = scoring.Scorer(function, None, None, "0", "fake")

    def most_bytes(lines):
        path = tmp_path / f"{lines}.txt"
        path.write_text("".join(f"{i:0999d}\n" for i in range(lines)))
        options = {"batch_size": 64, "part_rows": 256, "progress": False}
        tracemalloc.start()
        scoring.predict_files(scorer, path, tmp_path / f"{lines}.csv", **options)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    most_bytes(512)  # imports
    few, many = most_bytes(1024), most_bytes(8192)
    assert many < few + 500_000  # of 7 MB more


def memory_megabytes():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) // 1024
