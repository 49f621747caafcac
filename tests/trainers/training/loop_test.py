"""Training by name: S2D always, every method in the slow tier; the precision of a run."""

import csv
import json
import re

import keras
import numpy as np
import pytest

from s2d_tf import data, files
from s2d_tf.trainers import training
from s2d_tf.trainers.training import checkpoints, strategies
from s2d_tf.zoo import recipes, runs

NETWORK = "wrn_10_2_s2"


def trained(run_s2d, name, folder, *flags, timeout=900):
    done = run_s2d("train", name, f"--workdir={folder}", *flags, timeout=timeout)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def test_two_epochs_by_name(run_s2d, tmp_path):
    name, folder = f"{NETWORK}.s2d.digits", tmp_path / "run"
    done = trained(run_s2d, name, folder, "--epochs=2", "--seed=3", "--set=data.batch_size=10")
    lines = done.stdout.splitlines()
    assert re.fullmatch(r"2 epochs of 16 steps; about \d+:\d\d:\d\d left", lines[0])
    assert re.fullmatch(r"Epoch 1/2: .*\bloss [\d.]+.*; about \d+:\d\d:\d\d left", lines[1])
    assert re.fullmatch(r"Epoch 2/2: .*\bloss [\d.]+, [^;]*", lines[2])
    facts = json.loads((folder / "recipe.json").read_text())
    assert (facts["name"], facts["seed"]) == (name, 3)
    assert facts["recipe"]["training"]["epochs"] == 2
    with open(folder / "log.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    parts = {"loss", "accuracy", "learning_rate", "teacher_loss", "student_loss"}
    assert parts <= set(rows[0])
    assert all(np.isfinite(float(value)) for row in rows for value in row.values())
    assert float(rows[1]["loss"]) < float(rows[0]["loss"])
    assert runs.Run.open(folder).finished
    assert runs.Run.open(folder).weights(0.5).is_file(), "H2D starts from it"


def test_one_member_of_an_ensemble(tmp_path):
    recipe = recipes.resolve(f"{NETWORK}.ensemble.digits").replace(
        arguments={"depth": 10, "width": 1}, training={"epochs": 1}
    )
    settings = training.Settings(strategy="one_device", verbose=0)
    run = training.train(recipe, tmp_path / "run", 0, settings, member=3)
    assert "seed 3: " in training.summary(run)
    assert "1 of 5 members are trained" in training.summary(run)
    assert (tmp_path / "run" / "member_3" / runs.FINAL).is_file()
    with pytest.raises(ValueError, match=r"expected a member from 0 to 4 .* received 5"):
        training.train(recipe, tmp_path / "run", 0, settings, member=5)
    assert not (tmp_path / "run" / "member_5").exists()
    with pytest.raises(ValueError, match="expected no member: not an ensemble"):
        training.train(recipe.sibling("s2d"), tmp_path / "other", 0, settings, member=0)
    assert not (tmp_path / "other").exists()


def accuracy(predictor):
    images, labels = data.load_arrays("digits", "test")
    return (predictor.predict_uncertainty(images)["probs"].argmax(axis=-1) == labels).mean()


@pytest.mark.slow
def test_every_method_trains_to_a_sensible_accuracy(run_s2d, tmp_path):
    """In the order in which they need each other, in folders that find each other by name."""
    order = [
        "individual", "s2d", "mimo", "s2d_mimo", "mc", "s2d_mc", "ensemble", "s2d_ensemble",
        "swag", "s2d_swag", "end", "en2d", "h2d_dir", "h2d_gauss", "h2d", "plain_dir",
    ]  # fmt: skip
    found = {}
    for method in order:
        name = f"{NETWORK}.{method}.digits"
        members = ["--members=2"] if method.endswith("ensemble") else []
        trained(run_s2d, name, tmp_path / name, *members)
        found[method] = accuracy(runs.Run.open(tmp_path / name).predictor())
    bad = {method: value for method, value in found.items() if value < 0.85}
    assert not bad, found


@pytest.mark.parametrize(("processor", "chosen"), [(True, "bfloat16"), (False, "float32")])
def test_auto_follows_the_processor(monkeypatch, processor, chosen):
    monkeypatch.setattr(strategies, "multiplies_bfloat16", lambda: processor)
    assert strategies.choose_precision("auto") == chosen
    if not processor:
        with pytest.raises(ValueError, match=r"AVX512-BF16.*Use precision float32"):
            strategies.choose_precision("bfloat16")


@pytest.mark.skipif(not strategies.multiplies_bfloat16(), reason="no instructions for bfloat16")
def test_a_run_in_bfloat16_ends_in_float32_and_continues_only_in_it(tmp_path):
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits").replace(
        arguments={"depth": 10, "width": 1}, training={"epochs": 1}
    )
    settings = training.Settings(strategy="one_device", verbose=0, precision="bfloat16")
    run = training.train(recipe, tmp_path / "run", 0, settings)
    assert files.read_json(run.directory / "summary.json")["precision"] == "bfloat16"
    assert keras.config.dtype_policy().name == "float32"
    predictor = run.predictor()
    assert {v.dtype for v in predictor.backbone.weights} == {"float32"}
    answer = predictor.predict_uncertainty(np.zeros((2, 8, 8, 1), np.uint8))
    assert all(np.isfinite(values).all() for values in answer.values())
    run.weights().unlink()
    with pytest.raises(checkpoints.CheckpointError, match="precision float32, received bfloat16"):
        training.train(recipe, run.directory, 0, training.Settings(verbose=0))
