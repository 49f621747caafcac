"""Run directories that training makes: one run each, one process at a time."""

import subprocess
import sys

import pytest

from s2d_tf import files
from s2d_tf.trainers.training import run_directory
from s2d_tf.zoo import recipes, runs
from s2d_tf.zoo.layout import FINAL


@pytest.fixture
def recipe():
    return recipes.resolve("wrn_10_2_s2.s2d.digits")


HOLD = """
import sys
from s2d_tf import zoo
from s2d_tf.trainers.training import run_directory
with run_directory.lock(zoo.Run.open({directory!r})):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_refused_until_the_first_ends(tmp_path, recipe, project_root):
    run = run_directory.create(tmp_path, recipe, seed=3)
    with run_directory.lock(run):
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
        with pytest.raises(runs.RunError, match="one in use by") as error, run_directory.lock(run):
            pytest.fail("both hold the directory")
        assert "\n" not in str(error.value)
    finally:
        holder.kill()  # a lock must not outlive even a killed process
        holder.communicate()
    with run_directory.lock(run):
        pass


def _finished_member(ensemble, index):
    directory = ensemble.member_directory(index)
    member = run_directory.create(directory, ensemble.recipe.member_recipe, index)
    (directory / FINAL).write_bytes(b"")
    facts = {"name": member.recipe.name, "seed": index, "training_seconds": 60.0}
    files.write_json(
        directory / "summary.json", facts | {"parameters": 1000, "last_epoch": {"loss": 0.5}}
    )


def test_an_ensemble_grows_and_does_not_shrink(tmp_path):
    five = recipes.resolve("wrn_10_2_s2.ensemble.digits")
    run = run_directory.create(tmp_path / "run", five, 0)
    _finished_member(run, 0)
    ten = run_directory.create(tmp_path / "run", five.replace(num_members=10), 0)
    assert runs.Run.open(tmp_path / "run") == ten
    assert len(ten.member_directories) == 10
    assert (ten.member_directory(0) / FINAL).is_file()
    with pytest.raises(runs.RunError, match="other numbers"):
        run_directory.create(tmp_path / "run", five, 0)
    with pytest.raises(runs.RunError, match="another run"):
        run_directory.create(tmp_path / "run", five.replace(num_members=20), 1)


def test_the_summary_of_an_ensemble_in_parts(tmp_path):
    run = run_directory.create(tmp_path / "run", recipes.resolve("wrn_10_2_s2.ensemble.digits"), 0)
    _finished_member(run, 2)
    text = run_directory.summary(run)
    assert "seed 2: 1,000 parameters, 1.0 minutes; loss 0.5" in text
    assert "1 of 5 members are trained" in text


def test_own_images_may_move(tmp_path, recipe):
    run_directory.create(tmp_path, recipe, 0, data="here")
    assert run_directory.create(tmp_path, recipe, 0, data="there").data == "there"
    assert runs.Run.open(tmp_path).data == "there"
    assert run_directory.create(tmp_path, recipe, 0).data == "there"


def test_another_run_is_refused_and_left_alone(tmp_path, recipe):
    run_directory.create(tmp_path, recipe, seed=3)
    before = (tmp_path / "recipe.json").read_bytes()
    others = {
        "another run": (recipe.sibling("individual"), 3, "train"),
        "seed 3": (recipe, 4, "train"),
        "split train": (recipe, 3, "train_without_validation"),
        "other numbers": (recipe.replace(training={"epochs": 2}), 3, "train"),
    }
    for message, (other, seed, split) in others.items():
        with pytest.raises(runs.RunError, match=message) as error:
            run_directory.create(tmp_path, other, seed, split)
        assert "Choose another --workdir; nothing was changed." in str(error.value)
        assert "\n" not in str(error.value)
    assert (tmp_path / "recipe.json").read_bytes() == before
