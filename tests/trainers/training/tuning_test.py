"""A number chosen on the validation split, from Python and as `s2d tune`."""

import json
import os
import signal

import numpy as np
import pytest
from absl import flags
from scipy import stats

from s2d_tf import cli, data, files, metrics
from s2d_tf.trainers.training import callbacks, tuning
from s2d_tf.zoo import recipes, runs
from tests.trainers.training.small_runs import HELD_OUT, made, newest_step, recipe, settings

NAME = "wrn_10_2_s2.individual.digits"
KEY = "training.learning_rate"
RATES = ["1e-6", "0.5", "1e-3"]


@pytest.fixture(scope="module", autouse=True)
def commands(small_world):
    """The flags that the commands leave are gone afterwards."""
    yield
    flags.FLAGS.unparse_flags()


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """The directory and the rows of one sweep."""
    directory = tmp_path_factory.mktemp("tuned")
    return directory, tuning.tune(recipe("individual"), directory, KEY, RATES, 3, settings())


def test_one_run_for_each_value_without_the_validation_images(tuned):
    directory, rows = tuned
    for rate in RATES:
        run = runs.Run.open(directory / f"{KEY}={rate}")
        assert run.finished
        assert (run.recipe.name, run.seed, run.split) == (NAME, 3, HELD_OUT)
        assert run.recipe == recipe("individual").replace(training={"learning_rate": float(rate)})
    assert sorted(row["value"] for row in rows) == sorted(RATES)
    record = files.read_json(directory / "tuning.json")
    assert record["recipe"] == json.loads(json.dumps(recipe("individual").to_dict()))
    assert (record["name"], record["seed"], record["key"], record["rows"]) == (NAME, 3, KEY, rows)


def test_rows_are_validated_and_say_how_certain_they_are(tuned):
    directory, rows = tuned
    likelihoods = [row["nll"] for row in rows]
    assert likelihoods == sorted(likelihoods)
    assert rows[-1]["value"] == "1e-6", "which has learned nothing"
    images, labels = data.load_arrays("digits", "validation")
    trained = data.load_arrays("digits", HELD_OUT)[0]
    assert not {i.tobytes() for i in trained} & {i.tobytes() for i in images}
    losses = []
    for row in rows:
        predictor = runs.Run.open(directory / f"{KEY}={row['value']}").predictor()
        logits = np.float64(predictor(images, training=False))
        probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        losses.append(-np.log(probs[np.arange(len(labels)), labels]))
        np.testing.assert_allclose(row["nll"], losses[-1].mean(), rtol=1e-4)
        assert row["accuracy"] == (logits.argmax(axis=-1) == labels).mean()
        assert 0 <= row["ece"] <= 1
        assert row["examples"] == len(labels) == 16
        # Wilson: where the true rate is two standard errors of itself away.
        for end in row["accuracy_interval"]:
            error = np.sqrt(end * (1 - end) / 16)
            np.testing.assert_allclose(abs(end - row["accuracy"]), 1.959964 * error, atol=1e-9)
        test = stats.ttest_1samp(losses[-1], 0).confidence_interval(0.95)
        np.testing.assert_allclose(row["nll_interval"], test, rtol=1e-4)
    for row, own in zip(rows[1:], losses[1:], strict=True):
        test = stats.ttest_rel(own, losses[0]).confidence_interval(0.95)
        expected = [(own - losses[0]).mean(), *test]
        np.testing.assert_allclose(row["nll_minus_best"], expected, rtol=1e-3, atol=1e-6)


def test_a_certain_mistake_has_no_interval():
    assert metrics.mean_interval([1.0, np.inf]) == (None, None, None)
    assert metrics.mean_interval([1.0]) == (1.0, None, None)


def test_the_second_call_does_not_train_again(tuned):
    directory, rows = tuned
    before = {p: p.stat().st_mtime_ns for p in directory.rglob("*") if p.name != "tuning.json"}
    assert tuning.tune(recipe("individual"), directory, KEY, RATES, 3, settings()) == rows
    assert before == {p: p.stat().st_mtime_ns for p in before}


def test_a_wrong_value_is_rejected_before_the_first_run(tmp_path):
    with pytest.raises(recipes.RecipeError, match="learning_rate: expected float, received 'fast'"):
        tuning.tune(recipe("individual"), tmp_path, KEY, ["0.1", "fast"], 3, settings())
    assert not list(tmp_path.iterdir())


def test_a_student_is_tuned_with_teachers_of_its_split_only(tmp_path):
    given = str(made(tmp_path / "ensemble", recipe("ensemble")).directory)
    args = recipe("end"), tmp_path / "tuned", "model.temperature", ["2"], 0
    name = "wrn_10_2_s2.ensemble.digits"
    with pytest.raises(runs.RunError, match=f"expected a finished run of {name} .* {HELD_OUT}"):
        tuning.tune(*args, settings(teachers=given))
    assert not (tmp_path / "tuned" / "tuning.json").exists()
    made(tmp_path / "tuned" / name, recipe("ensemble"), split=HELD_OUT, loadable=True)
    assert [row["value"] for row in tuning.tune(*args, settings())] == ["2"]
    cached = np.load(tmp_path / "tuned" / "model.temperature=2" / "teacher_logits.npy")
    assert len(cached) == len(data.load_arrays("digits", HELD_OUT)[0])


def test_the_command_prints_the_table_and_trains_with_set(tmp_path, capsys):
    options = [f"--workdir={tmp_path}", "--seed=4", "--epochs=1", "--set", "data.batch_size=16"]
    assert cli.main(["tune", NAME, KEY, "1e-3", "1e-9", *options]) == 0, capsys.readouterr().err
    shown = capsys.readouterr().out
    assert f"| {KEY} | accuracy [95%] | NLL [95%] | %ECE | NLL minus the best's [95%] |" in shown
    assert "| the best |" in shown
    for rate in ("1e-3", "1e-9"):
        run = runs.Run.open(tmp_path / f"{KEY}={rate}")
        changed = run.recipe.training
        assert (changed.learning_rate, changed.epochs) == (float(rate), 1)
        assert (run.recipe.data.batch_size, run.seed, run.split) == (16, 4, HELD_OUT)


def test_the_command_that_is_stopped_is_saved_and_returns_75(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(
        callbacks.Checkpoint,
        "on_train_batch_begin",
        lambda self, batch, logs=None: os.kill(os.getpid(), signal.SIGTERM),
    )
    arguments = ["tune", NAME, KEY, "0.1", f"--workdir={tmp_path}", "--epochs=1"]
    assert cli.main(arguments) == 75
    error = capsys.readouterr().err
    assert "stopped by SIGTERM at epoch 1, step 1, where it is saved" in error
    assert "s2d tune: " in error
    assert newest_step(tmp_path / f"{KEY}=0.1") == 1
