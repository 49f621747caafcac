"""Damaged checkpoints: refused by name, or restored as they were; never in parts."""

import json
import random

import keras
import numpy as np
import pytest

from s2d_tf import files
from s2d_tf.trainers.training import checkpoints

VALUES = (np.arange(6.0).reshape(2, 3), np.ones(4))


def check(directory, mutate, count, seed):
    """How many damaged copies were refused."""
    variables = [keras.Variable(value, name=f"v{i}") for i, value in enumerate(VALUES)]
    checkpoints.save(directory, 1, variables, {"epoch": 1})
    (folder,) = checkpoints.found(directory)
    good = {path: path.read_bytes() for path in folder.iterdir()}
    rng, refused = random.Random(seed), 0
    for i in range(count):
        for path, data in good.items():
            path.write_bytes(data)
        damaged = rng.choice(sorted(good))
        damaged.write_bytes(mutate(good[damaged], rng))
        for variable in variables:
            variable.assign(np.full(variable.shape, -1.0))
        try:
            facts = checkpoints.restore(directory, variables)
        except checkpoints.CheckpointError:
            refused += 1
            assert all((variable.numpy() == -1).all() for variable in variables), i
            continue
        assert facts["epoch"] == facts["step"] == 1, i
        for variable, value in zip(variables, VALUES, strict=True):
            np.testing.assert_array_equal(variable.numpy(), value, err_msg=f"copy {i}")
    return refused


def test_damage_under_fitting_checksums_is_refused_in_our_words(tmp_path, mutate):
    """Who can write the archive can write its checksums too; no such file crashes the reader."""
    variables = [keras.Variable(value, name=f"v{i}") for i, value in enumerate(VALUES)]
    checkpoints.save(tmp_path, 1, variables, {"epoch": 1})
    (folder,) = checkpoints.found(tmp_path)
    arrays, manifest = folder / "arrays.safetensors", folder / "manifest.json"
    good, rng, refused = arrays.read_bytes(), random.Random(3), 0
    for _ in range(300):
        arrays.write_bytes(mutate(good, rng))
        facts = files.read_json(manifest)
        facts.pop("checksum")
        facts["sha256"] = {arrays.name: files.sha256(arrays)}
        manifest.write_text(json.dumps(facts | {"checksum": checkpoints._checksum(facts)}))
        for variable in variables:
            variable.assign(np.full(variable.shape, -1.0))
        try:
            checkpoints.restore(tmp_path, variables)
        except checkpoints.CheckpointError:
            refused += 1
            assert all((variable.numpy() == -1).all() for variable in variables)
    assert refused > 210


def test_damaged_checkpoints_are_refused_or_whole(tmp_path, mutate):
    assert 200 < check(tmp_path, mutate, 300, seed=1) <= 300


@pytest.mark.slow
def test_ten_thousand_damaged_checkpoints_are_refused_or_whole(tmp_path, mutate):
    assert 8000 < check(tmp_path, mutate, 10_000, seed=2) <= 10_000
