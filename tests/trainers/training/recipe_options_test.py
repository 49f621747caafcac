"""What a command line can change in a recipe, and what is rejected."""

import numpy as np
import pytest

from s2d_tf.trainers.training import recipe_options
from s2d_tf.zoo import recipes


def check(error):
    assert "\n" not in str(error.value)


def test_override():
    recipe = recipes.resolve("wrn_10_2_s2.s2d_ensemble.digits")
    changed = recipe_options.override(
        recipe,
        ["model.noise_stddev=[0.1, 0.3]", "training.weight_decay=0", "model.proxy=mean_precision"],
        epochs=2,
        members=3,
    )
    assert changed.model.noise_stddev == (0.1, 0.3)
    assert changed.training.weight_decay == 0.0
    assert changed.model.proxy == "mean_precision"
    assert (changed.training.epochs, changed.num_members) == (2, 3)
    assert recipe.training.epochs != 2, "the original is left as it was"
    member = changed.member_recipe
    assert (member.method, member.training.epochs) == ("s2d", 2)
    assert member.model.noise_stddev == (0.1, 0.3)
    assert recipe_options.override(recipe, ["model.noise_stddev=0"]).model.noise_stddev == 0.0


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("model.noise=0.1", "model.noise_stddev"),
        ("noise_stddev=0.1", "model.noise_stddev"),
        ("training.epochs=two", "epochs: expected int, received 'two'"),
        ("training.epochs=true", "epochs: expected int, received True"),
        ("training.learning_rate=[1]", "learning_rate: expected float"),
    ],
)
def test_bad_overrides_are_refused(assignment, message):
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    with pytest.raises(recipes.RecipeError, match=message) as error:
        recipe_options.override(recipe, [assignment])
    check(error)


def test_members_only_where_there_are_some():
    with pytest.raises(recipes.RecipeError, match="which has one member, received 3") as error:
        recipe_options.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), members=3)
    check(error)


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("training.epochs=-3", "training.epochs: expected at least 1, received -3"),
        ("training.schedule=cubic", "one of steps, cosine, linear, constant, received 'cubic'"),
        ("training.optimizer=lion", "training.optimizer: expected one of sgd, muon, adam"),
        ("data.resolutions=[1.5]", r"data.resolutions: expected in \(0, 1\)"),
        ("training.sgd_ratio=0", "training.sgd_ratio: expected above 0"),
        ("training.learning_rate=0", "training.learning_rate: expected above 0"),
        ("training.momentum=1.5", r"training.momentum: expected in \[0, 1\)"),
        ("data.batch_size=0", "data.batch_size: expected at least 1"),
        ("data.augmentation=flip", "expected one of none, mirror_shift"),
        ('data.mean=["x"]', "data.mean: expected numbers"),
        ("data.mean=[]", "data.mean, data.stddev: expected one number for each channel"),
        ("data.stddev=[0.0]", "data.stddev: expected above 0"),
        ("model.dropout=7", r"model.dropout: expected in \[0, 1\)"),
        ("model.noise_stddev=[0.0, -1.0]", "model.noise_stddev: expected not below 0"),
        ("model.proxy=guess", "model.proxy: expected one of newton, mean_precision"),
        ("model.temperature=-1", "model.temperature: expected above 0"),
        ("model.temperature=auto", "which s2d_tf 0.2 removed"),
        ("model.student_draws=mean", "--set: expected a key such as|--set: expected one of"),
        ("model.teacher_kind=plain", "model.teacher_kind: expected one of dirichlet, categorical"),
        ("model.distribution_weight=-1", "model.distribution_weight: expected not below 0"),
    ],
)
def test_values_out_of_range_are_refused(assignment, message):
    with pytest.raises(recipes.RecipeError, match=message):
        recipe_options.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), [assignment])


def test_another_objective_for_a_student():
    name, wanted = "wrn_10_2_s2.h2d_gauss.digits", "dirichlet_kl_divergence"
    assert (
        recipe_options.override(recipes.resolve(name), [f"objective={wanted}"]).objective == wanted
    )
    with pytest.raises(recipes.RecipeError, match="objective: expected one of"):
        recipe_options.override(recipes.resolve(name), ["objective=mystery"])
    with pytest.raises(recipes.RecipeError, match="--set: expected one of data"):
        recipe_options.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), [f"objective={wanted}"])


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("none", None),
        ("individual", recipes.Start("individual", 1.0)),
        ("s2d@0.5", recipes.Start("s2d", 0.5)),
    ],
)
def test_other_teachers_and_another_start_for_a_student(text, start):
    recipe = recipes.resolve("wrn_10_2_s2.h2d_gauss.digits")
    changed = recipe_options.override(recipe, [f"start={text}", "teachers=ensemble"])
    assert (changed.start, changed.teachers) == (start, "ensemble")


@pytest.mark.parametrize("text", ["s2d@half", "s2d@0", "s2d@2"])
def test_a_bad_start_is_rejected(text):
    with pytest.raises(recipes.RecipeError, match="start: expected") as error:
        recipe_options.override(recipes.resolve("wrn_10_2_s2.h2d.digits"), [f"start={text}"])
    check(error)
    with pytest.raises(recipes.RecipeError, match="--set: expected"):
        recipe_options.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), ["start=individual"])


@pytest.mark.parametrize(
    ("assignment", "near"),
    [
        ("model.noise_stdev=0.2", "a key such as model.noise_stddev"),
        ("temperature=2", "a key such as model.temperature,"),
        ("training.learning-rate=1", "a key such as training.learning_rate"),
        ("xyz=1", "one of data.mean, "),
    ],
)
def test_a_typo_in_set_gets_the_nearest_key(assignment, near):
    with pytest.raises(recipes.RecipeError, match=f"--set: expected {near}") as caught:
        recipe_options.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), [assignment])
    assert f"received {assignment!r}. Correct the key." in str(caught.value)


def test_statistics_of_the_training_images(monkeypatch):
    images = np.random.default_rng(0).integers(0, 256, (100, 5, 4, 3), dtype=np.uint8)
    images[..., 2] = 7
    monkeypatch.setattr(recipe_options, "CHUNK_IMAGES", 33)
    mean, stddev = recipe_options.statistics(images)
    np.testing.assert_allclose(mean, images.mean(axis=(0, 1, 2)), atol=0.051)
    np.testing.assert_allclose(stddev[:2], images.std(axis=(0, 1, 2))[:2], atol=0.051)
    assert stddev[2] == 1.0
