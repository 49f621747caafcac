"""Every name resolves to a recipe; what can be changed in one, and what is rejected."""

import json

import pytest

from s2d_tf.zoo import recipes

METHODS = {
    "individual", "s2d", "mimo", "s2d_mimo", "swag", "s2d_swag", "mc", "s2d_mc", "ensemble",
    "s2d_ensemble", "end", "en2d", "h2d_dir", "h2d_gauss", "h2d", "h2d_spread", "plain_dir",
    "plain_gauss",
}  # fmt: skip


def test_every_name_resolves_and_survives_json():
    names = recipes.names()
    assert len(names) == len(set(names))
    assert {name.split(".")[1] for name in names} == METHODS
    for name in names:
        recipe = recipes.resolve(name)
        assert recipe.name == name
        assert recipes.Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_the_product_is_complete_but_for_dropout_that_is_not_there():
    names = set(recipes.names())
    for method in METHODS:
        for network in ("wrn_28_10", "wrn_10_2_s2", "densenet_bc_100_12"):
            for dataset in ("cifar100", "cifar100_plus", "digits"):
                exists = not (
                    method in ("mc", "s2d_mc")
                    and network.startswith("densenet")
                    and dataset != "cifar100"
                )
                assert (f"{network}.{method}.{dataset}" in names) == exists


def check(error):
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("method", ["mc", "s2d_mc"])
def test_monte_carlo_without_dropout_says_why_it_does_not_exist(method):
    with pytest.raises(recipes.RecipeError, match="trained on cifar100_plus without") as error:
        recipes.resolve(f"densenet_bc_100_12.{method}.cifar100_plus")
    check(error)


@pytest.mark.parametrize(
    ("wrong", "near"),
    [
        ("wrn_10_2_s2.s2d.digit", "wrn_10_2_s2.s2d.digits"),
        ("wrn_28_10.h2dgauss.cifar100", "wrn_28_10.h2d_gauss.cifar100"),
        ("densenet_bc_100.s2d.cifar100", "densenet_bc_100_12.s2d.cifar100"),
    ],
)
def test_unknown_names_list_near_ones(wrong, near):
    with pytest.raises(recipes.RecipeError, match=near.replace(".", r"\.")) as error:
        recipes.resolve(wrong)
    check(error)


def test_names_that_are_near_to_nothing():
    with pytest.raises(recipes.RecipeError, match=r"architecture.method.dataset") as error:
        recipes.resolve("xyz")
    check(error)


def test_override():
    recipe = recipes.resolve("wrn_10_2_s2.s2d_ensemble.digits")
    changed = recipes.override(
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
    assert recipes.override(recipe, ["model.noise_stddev=0"]).model.noise_stddev == 0.0


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
        recipes.override(recipe, [assignment])
    check(error)


def test_members_only_where_there_are_some():
    with pytest.raises(recipes.RecipeError, match="which has one member, received 3") as error:
        recipes.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), members=3)
    check(error)


def test_damaged_records_are_refused():
    values = recipes.resolve("wrn_10_2_s2.s2d.digits").to_dict()
    with pytest.raises(recipes.RecipeError, match=r"unknown .*surprise"):
        recipes.Recipe.from_dict({**values, "surprise": 1})
    with pytest.raises(recipes.RecipeError, match=r"missing .*title"):
        recipes.Recipe.from_dict({k: v for k, v in values.items() if k != "title"})
    with pytest.raises(recipes.RecipeError, match=r"training: .*unknown .*lr"):
        recipes.Recipe.from_dict({**values, "training": {**values["training"], "lr": 1}})


@pytest.mark.parametrize("values", [[], "recipe", None, 3])
def test_what_is_no_record_at_all_is_refused(values):
    with pytest.raises(recipes.RecipeError, match="expected names and values"):
        recipes.Recipe.from_dict(values)


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
        ("model.student_draws=some", "model.student_draws: expected one of independent, balanced"),
        ("model.teacher_kind=plain", "model.teacher_kind: expected one of dirichlet, categorical"),
        ("model.distribution_weight=-1", "model.distribution_weight: expected not below 0"),
    ],
)
def test_values_out_of_range_are_refused(assignment, message):
    with pytest.raises(recipes.RecipeError, match=message):
        recipes.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), [assignment])


def test_every_objective_is_a_loss_that_takes_its_numbers():
    from s2d_tf import losses
    from s2d_tf.zoo import rules

    numbers = recipes.ModelRecipe()
    for name, (loss, *arguments) in rules.OBJECTIVES.items():
        made = getattr(losses, loss)(**{key: getattr(numbers, key) for key in arguments})
        assert made.name == name


def test_a_recipe_of_ones_own_has_no_snapshots():
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits").replace(architecture="mine")
    assert recipes.snapshots(recipe) == set()


def test_another_objective_for_a_student():
    name, wanted = "wrn_10_2_s2.h2d_gauss.digits", "dirichlet_kl_divergence"
    assert recipes.override(recipes.resolve(name), [f"objective={wanted}"]).objective == wanted
    with pytest.raises(recipes.RecipeError, match="objective: expected one of"):
        recipes.override(recipes.resolve(name), ["objective=mystery"])
    with pytest.raises(recipes.RecipeError, match="--set: expected one of data"):
        recipes.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), [f"objective={wanted}"])


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
    changed = recipes.override(recipe, [f"start={text}", "teachers=ensemble"])
    assert (changed.start, changed.teachers) == (start, "ensemble")


@pytest.mark.parametrize("text", ["s2d@half", "s2d@0", "s2d@2"])
def test_a_bad_start_is_rejected(text):
    with pytest.raises(recipes.RecipeError, match="start: expected") as error:
        recipes.override(recipes.resolve("wrn_10_2_s2.h2d.digits"), [f"start={text}"])
    check(error)
    with pytest.raises(recipes.RecipeError, match="--set: expected"):
        recipes.override(recipes.resolve("wrn_10_2_s2.s2d.digits"), ["start=individual"])


def test_replace_takes_sections():
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits").replace(
        arguments={"depth": 10, "width": 1}, training={"epochs": 3}, model={"dropout": 0.5}
    )
    assert (recipe.training.epochs, recipe.model.dropout) == (3, 0.5)
    assert recipe.training.momentum == 0.9
