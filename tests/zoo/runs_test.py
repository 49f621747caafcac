"""Run directories: one run each, one process at a time."""

import json
import pathlib
import subprocess
import sys

import pytest

from s2d_tf import files
from s2d_tf.zoo import recipes, runs


@pytest.fixture
def recipe():
    return recipes.resolve("wrn_10_2_s2.s2d.digits")


def test_create_writes_the_resolved_recipe_and_opens_again(tmp_path, recipe):
    run = runs.Run.create(tmp_path / "run", recipe, seed=3)
    facts = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (facts["name"], facts["seed"], facts["split"]) == (recipe.name, 3, "train")
    assert facts["recipe"]["training"]["epochs"] == recipe.training.epochs
    assert runs.Run.open(tmp_path / "run") == run
    assert runs.Run.create(tmp_path / "run", recipe, seed=3) == run
    assert not run.finished


def test_another_run_is_refused_and_left_alone(tmp_path, recipe):
    runs.Run.create(tmp_path, recipe, seed=3)
    before = (tmp_path / "recipe.json").read_bytes()
    others = {
        "another run": (recipe.sibling("individual"), 3, "train"),
        "seed 3": (recipe, 4, "train"),
        "split train": (recipe, 3, "train_without_validation"),
        "other numbers": (recipe.replace(training={"epochs": 2}), 3, "train"),
    }
    for message, (other, seed, split) in others.items():
        with pytest.raises(runs.RunError, match=message) as error:
            runs.Run.create(tmp_path, other, seed, split)
        assert "Choose another --workdir; nothing was changed." in str(error.value)
        assert "\n" not in str(error.value)
    assert (tmp_path / "recipe.json").read_bytes() == before


def test_a_folder_without_a_run_is_refused(tmp_path):
    with pytest.raises(runs.RunError, match=r"recipe\.json, received"):
        runs.Run.open(tmp_path)


def test_an_unfinished_run_says_the_command_that_goes_on(tmp_path, recipe):
    run = runs.Run.create(tmp_path, recipe, seed=3)
    with pytest.raises(runs.RunError, match=r"s2d train wrn_10_2_s2\.s2d\.digits .*--seed=3"):
        run.predictor()


HOLD = """
import sys
from s2d_tf.zoo import runs
with runs.Run.open({directory!r}).lock():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_ends(tmp_path, recipe, project_root):
    run = runs.Run.create(tmp_path, recipe, seed=3)
    with run.lock():
        pass
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(directory=str(tmp_path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project_root,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(runs.RunError, match="one in use by") as error, run.lock():
            pytest.fail("both hold the directory")
        assert "\n" not in str(error.value)
    finally:
        holder.kill()  # a lock must not outlive even a killed process
        holder.communicate()
    with run.lock():
        pass


def test_snapshots(tmp_path, recipe):
    run = runs.Run(pathlib.Path(tmp_path), recipe.replace(training={"epochs": 300}), 0)
    assert run.weights() == tmp_path / "final.safetensors"
    assert run.weights(0.5) == tmp_path / "snapshots" / "epoch_150.safetensors"
    assert runs.snapshot_epoch(recipe.replace(training={"epochs": 1}), 0.5) == 1


def _finished_member(ensemble, index):
    directory = ensemble.member_directory(index)
    member = runs.Run.create(directory, ensemble.recipe.member_recipe, index)
    (directory / runs.FINAL).write_bytes(b"")
    facts = {"name": member.recipe.name, "seed": index, "training_seconds": 60.0}
    files.write_json(
        directory / "summary.json", facts | {"parameters": 1000, "last_epoch": {"loss": 0.5}}
    )


def test_an_ensemble_grows_and_does_not_shrink(tmp_path):
    five = recipes.resolve("wrn_10_2_s2.ensemble.digits")
    run = runs.Run.create(tmp_path / "run", five, 0)
    _finished_member(run, 0)
    ten = runs.Run.create(tmp_path / "run", five.replace(num_members=10), 0)
    assert runs.Run.open(tmp_path / "run") == ten
    assert len(ten.member_directories) == 10
    assert (ten.member_directory(0) / runs.FINAL).is_file()
    with pytest.raises(runs.RunError, match="other numbers"):
        runs.Run.create(tmp_path / "run", five, 0)
    with pytest.raises(runs.RunError, match="another run"):
        runs.Run.create(tmp_path / "run", five.replace(num_members=20), 1)


def test_the_summary_of_an_ensemble_in_parts(tmp_path):
    run = runs.Run.create(tmp_path / "run", recipes.resolve("wrn_10_2_s2.ensemble.digits"), 0)
    _finished_member(run, 2)
    text = runs.summary(run)
    assert "seed 2: 1,000 parameters, 1.0 minutes; loss 0.5" in text
    assert "1 of 5 members are trained" in text
