"""Run directories: one run each."""

import json
import pathlib

import pytest

from s2d_tf.zoo import recipes, runs


@pytest.fixture
def recipe():
    return recipes.resolve("wrn_10_2_s2.s2d.digits")


def test_the_resolved_recipe_is_written_and_opened_again(tmp_path, recipe):
    run = runs.Run(tmp_path / "run", recipe, seed=3).write()
    facts = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (facts["name"], facts["seed"], facts["split"]) == (recipe.name, 3, "train")
    assert facts["recipe"]["training"]["epochs"] == recipe.training.epochs
    assert runs.Run.open(tmp_path / "run") == run
    assert not run.finished


def test_an_unfinished_run_says_the_command_that_goes_on(tmp_path, recipe):
    run = runs.Run(tmp_path, recipe, seed=3).write()
    with pytest.raises(runs.RunError, match=r"s2d train wrn_10_2_s2\.s2d\.digits .*--seed=3"):
        run.predictor()


def test_snapshots(tmp_path, recipe):
    run = runs.Run(pathlib.Path(tmp_path), recipe.replace(training={"epochs": 300}), 0)
    assert run.weights() == tmp_path / "final.safetensors"
    assert run.weights(0.5) == tmp_path / "snapshots" / "epoch_150.safetensors"
    assert runs.snapshot_epoch(recipe.replace(training={"epochs": 1}), 0.5) == 1


@pytest.mark.parametrize(
    ("section", "name", "default", "other"),
    [
        ("data", "held_out", 0, 500),
        ("model", "student_draws", "independent", "balanced"),
        ("model", "concentration_temperature", 1.0, 2.0),
        ("model", "detach_scale", False, True),
        ("data", "label_noise", None, "symmetric@0.2"),
    ],
)
def test_runs_of_version_0_1(tmp_path, recipe, section, name, default, other):
    run = runs.Run(tmp_path, recipe, seed=3).write()
    for value in (default, other):
        facts = json.loads((tmp_path / "recipe.json").read_text())
        facts["recipe"][section][name] = value
        (tmp_path / "recipe.json").write_text(json.dumps(facts))
        if value == default:
            assert runs.Run.open(tmp_path) == run
    with pytest.raises(runs.RunError, match=f"{section}.{name}: .* s2d_tf 0.2 removed"):
        runs.Run.open(tmp_path)


@pytest.mark.parametrize(
    ("name", "fingerprint"),
    [
        ("densenet_bc_100_12.s2d.cifar100", "0324caf5b6586be4"),
        ("wrn_28_10.h2d_gauss.cifar100", "4aef8924b6c02cb5"),
        ("fast_resnet_half.end.cifar100", "67a05b056b445fb6"),
        ("wrn_10_2_s2.ensemble.digits", "87850b7fe5a096b1"),
    ],
)
def test_the_fingerprint_is_that_of_version_0_1(name, fingerprint):
    """Computed by version 0.1: its checkpoints are those of the same run."""
    run = runs.Run(pathlib.Path("run"), recipes.resolve(name), 3, "train")
    assert run.fingerprint.startswith(fingerprint)
