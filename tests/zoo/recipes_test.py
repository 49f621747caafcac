"""Every name resolves to a recipe; what can be changed in one, and what is rejected."""

import json

import pytest

from s2d_tf.zoo import recipes

METHODS = {
    "individual", "s2d", "mimo", "s2d_mimo", "swag", "s2d_swag", "mc", "s2d_mc", "ensemble",
    "s2d_ensemble", "end", "en2d", "h2d_dir", "h2d_gauss", "h2d", "plain_dir",
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


def test_every_objective_is_a_loss_that_takes_its_numbers():
    from s2d_tf import losses
    from s2d_tf.zoo import recipe_fields

    numbers = recipes.ModelRecipe()
    for name, (loss, *arguments) in recipe_fields.OBJECTIVES.items():
        made = getattr(losses, loss)(**{key: getattr(numbers, key) for key in arguments})
        assert made.name == name


def test_a_recipe_of_ones_own_has_no_snapshots():
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits").replace(architecture="mine")
    assert recipes.snapshots(recipe) == set()


def test_replace_takes_sections():
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits").replace(
        arguments={"depth": 10, "width": 1}, training={"epochs": 3}, model={"dropout": 0.5}
    )
    assert (recipe.training.epochs, recipe.model.dropout) == (3, 0.5)
    assert recipe.training.momentum == 0.9
