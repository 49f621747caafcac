"""What a command line can change in a recipe, and run directories: one run each, one process."""

import subprocess
import sys

import numpy as np
import pytest

from s2d_tf.trainers import training
from s2d_tf.trainers.training import run_setup
from s2d_tf.zoo import recipes, runs
from s2d_tf.zoo.runs import FINAL

S2D, STUDENT = "wrn_10_2_s2.s2d.digits", "wrn_10_2_s2.h2d_gauss.digits"


@pytest.fixture
def recipe():
    return recipes.resolve(S2D)


def test_override():
    recipe = recipes.resolve("wrn_10_2_s2.s2d_ensemble.digits")
    changed = training.override(
        recipe,
        ["model.noise_stddev=[0.1, 0.3]", "training.weight_decay=0", "model.proxy=mean_precision"],
        epochs=2,
        members=3,
    )
    assert changed.training.weight_decay == 0.0
    assert changed.model.proxy == "mean_precision"
    assert (changed.training.epochs, changed.num_members) == (2, 3)
    assert recipe.training.epochs != 2, "the original is left as it was"
    member = changed.member_recipe
    assert (member.method, member.training.epochs) == ("s2d", 2)
    assert member.model.noise_stddev == (0.1, 0.3)


@pytest.mark.parametrize(
    ("text", "start"), [("none", None), ("s2d@0.5", recipes.Start("s2d", 0.5))]
)
def test_other_teachers_and_another_start_for_a_student(text, start):
    objective = "dirichlet_kl_divergence"
    assignments = [f"start={text}", "teachers=ensemble", f"objective={objective}"]
    changed = training.override(recipes.resolve(STUDENT), assignments)
    assert (changed.start, changed.teachers, changed.objective) == (start, "ensemble", objective)


@pytest.mark.parametrize(
    ("name", "assignment", "message"),
    [
        (S2D, "model.noise_stdev=0.2", "a key such as model.noise_stddev.* Correct the key"),
        (S2D, "xyz=1", "one of data.mean, .*received 'xyz=1'"),
        (S2D, "training.epochs=two", "epochs: expected int, received 'two'"),
        (S2D, "training.epochs=-3", "training.epochs: expected at least 1, received -3"),
        (S2D, "training.schedule=cubic", "one of steps, cosine, linear, constant, received"),
        (S2D, "data.resolutions=[1.5]", r"data.resolutions: expected in \(0, 1\)"),
        (S2D, "data.mean=[]", "data.mean: expected one number for each channel"),
        (S2D, "objective=dirichlet_kl_divergence", "--set: expected one of data"),
        (STUDENT, "objective=mystery", "objective: expected one of"),
        (STUDENT, "start=s2d@half", "start: expected METHOD"),
    ],
)
def test_bad_overrides_are_rejected(name, assignment, message):
    with pytest.raises(recipes.RecipeError, match=message) as error:
        training.override(recipes.resolve(name), [assignment])
    assert "\n" not in str(error.value)


def test_members_only_where_there_are_some(recipe):
    with pytest.raises(recipes.RecipeError, match="which has one member, received 3"):
        training.override(recipe, members=3)


def test_statistics_of_the_training_images():
    images = np.random.default_rng(0).integers(0, 256, (100, 5, 4, 3), dtype=np.uint8)
    images[..., 2] = 7
    mean, stddev = run_setup.statistics(images)
    np.testing.assert_allclose(mean, images.mean(axis=(0, 1, 2)), atol=0.051)
    np.testing.assert_allclose(stddev[:2], images.std(axis=(0, 1, 2))[:2], atol=0.051)
    assert stddev[2] == 1.0


HOLD = """
import sys
from s2d_tf import zoo
from s2d_tf.trainers.training import run_setup
with run_setup.lock(zoo.Run.open({directory!r})):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_process_is_rejected_until_the_first_ends(tmp_path, recipe, project_root):
    run = training.create(tmp_path, recipe, seed=3)
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD.format(directory=str(tmp_path))],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=project_root,
        text=True,
    )
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(runs.RunError, match="one in use by") as error, run_setup.lock(run):
            pytest.fail("both hold the directory")
        assert "\n" not in str(error.value)
    finally:
        holder.kill()  # a lock must not outlive even a killed process
        holder.communicate()
    with run_setup.lock(run):
        pass


def test_an_ensemble_grows_and_does_not_shrink(tmp_path):
    five = recipes.resolve("wrn_10_2_s2.ensemble.digits")
    run = training.create(tmp_path / "run", five, 0)
    member = training.create(run.member_directory(2), five.member_recipe, 2)
    member.weights().write_bytes(b"")
    ten = training.create(tmp_path / "run", five.replace(num_members=10), 0)
    assert runs.Run.open(tmp_path / "run") == ten
    assert (ten.member_directory(2) / FINAL).is_file()
    with pytest.raises(runs.RunError, match="other numbers"):
        training.create(tmp_path / "run", five, 0)
    with pytest.raises(runs.RunError, match="another run"):
        training.create(tmp_path / "run", five.replace(num_members=20), 1)


def test_own_images_may_move(tmp_path, recipe):
    training.create(tmp_path, recipe, 0, data="here")
    assert training.create(tmp_path, recipe, 0, data="there").data == "there"
    assert training.create(tmp_path, recipe, 0).data == "there"


def test_a_run_from_before_a_set_was_evaluated_on_goes_on(tmp_path):
    """The record of CIFAR-100 has got CIFAR-10 since; what is trained is the same."""
    now = recipes.resolve("wrn_10_2_s2.s2d.cifar100")
    old = now.replace(out_of_distribution=now.out_of_distribution[:-1])
    held = training.create(tmp_path, old, 0)
    before = (tmp_path / "recipe.json").read_bytes()
    assert set(now.out_of_distribution) - set(old.out_of_distribution) == {"cifar10"}
    assert training.create(tmp_path, now, 0) == held
    assert (tmp_path / "recipe.json").read_bytes() == before
    assert runs.Run(tmp_path, now, 0).fingerprint == held.fingerprint
    with pytest.raises(runs.RunError, match="other numbers"):
        training.create(tmp_path, now.replace(training={"epochs": 2}), 0)


def test_another_run_is_rejected_and_left_alone(tmp_path, recipe):
    training.create(tmp_path, recipe, seed=3)
    before = (tmp_path / "recipe.json").read_bytes()
    others = {
        "another run": (recipe.sibling("individual"), 3, "train"),
        "seed 3": (recipe, 4, "train"),
        "split train": (recipe, 3, "train_without_validation"),
        "other numbers": (recipe.replace(training={"epochs": 2}), 3, "train"),
    }
    for message, (other, seed, split) in others.items():
        with pytest.raises(runs.RunError, match=message) as error:
            training.create(tmp_path, other, seed, split)
        assert "Choose another --workdir; nothing was changed." in str(error.value)
        assert "\n" not in str(error.value)
    assert (tmp_path / "recipe.json").read_bytes() == before
