"""Recipes for images that are in no registry."""

import dataclasses
import json

import pytest

from s2d_tf.zoo import recipes

OWN = recipes.OwnData(
    image_shape=(12, 10, 3),
    class_names=("ant", "bee"),
    mean=(1.0, 2.0, 3.0),
    stddev=(4.0, 5.0, 6.0),
    images=1000,
    fingerprint="0" * 64,
)


def resolve(name="wrn_10_2_s2.s2d", dataset="pets", **changes):
    return recipes.resolve_own(name, dataset, dataclasses.replace(OWN, **changes))


def test_it_is_the_networks_recipe_with_the_datas_facts():
    recipe, known = resolve(), recipes.resolve("wrn_10_2_s2.s2d.cifar100")
    assert recipe.name == "wrn_10_2_s2.s2d.pets"
    assert (recipe.num_classes, recipe.source_dataset) == (2, "pets")
    assert (recipe.image_shape, recipe.class_names) == ((12, 10, 3), ("ant", "bee"))
    assert recipe.out_of_distribution == ()
    assert recipe.training == known.training
    assert recipe.model == known.model
    assert recipe.data == dataclasses.replace(known.data, mean=OWN.mean, stddev=OWN.stddev)


def test_it_survives_json():
    recipe = resolve()
    assert recipes.Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


def test_other_recipes_are_written_as_before():
    recipe = recipes.resolve("wrn_10_2_s2.s2d.digits")
    assert "own_data" not in recipe.to_dict()
    assert (recipe.image_shape, len(recipe.class_names)) == ((8, 8, 1), 8)
    assert recipe.train_arguments == recipe.name
    assert resolve().train_arguments == "wrn_10_2_s2.s2d --data=FOLDER"


def test_its_siblings_are_on_the_same_data():
    ensemble = resolve("wrn_10_2_s2.ensemble")
    for other in (ensemble.sibling("individual"), ensemble.member_recipe):
        assert (other.method, other.dataset, other.own_data) == ("individual", "pets", OWN)
    numbers = ensemble.replace(training={"epochs": 3}).member_recipe.training
    assert numbers.epochs == 3


def test_students_start_from_its_snapshots():
    known = recipes.resolve("wrn_28_10.s2d.cifar100")
    assert recipes.snapshots(resolve("wrn_28_10.s2d")) == recipes.snapshots(known) != set()
    assert recipes.snapshots(resolve("wrn_28_10.individual")) == set()


@pytest.mark.parametrize(
    ("images", "expected"), [(10**6, 64), (512, 64), (511, 32), (40, 4), (1, 1)]
)
def test_an_epoch_has_eight_batches(images, expected):
    assert resolve(images=images).data.batch_size == expected


@pytest.mark.parametrize("name", ["digits", "cifar100_plus", "svhn_cropped", "s2d", "wrn_28_10"])
def test_no_known_name_is_taken(name):
    assert resolve(dataset=name).dataset == f"{name}_images"
    # Else the special cases of that record would hold for it.
    assert resolve(dataset=name).training == resolve().training


@pytest.mark.parametrize("name", ["wrn_10_2_s2.s2d.pets", "wrn_10_2_s2", "wrn_10_2.s2d", "a.b"])
def test_the_name_of_a_network_and_a_method_is_needed(name):
    with pytest.raises(recipes.RecipeError, match=r"architecture\.method for own data") as caught:
        resolve(name)
    assert name == "a.b" or "wrn_10_2_s2." in str(caught.value)


def test_two_parts_without_data_name_the_flag():
    with pytest.raises(recipes.RecipeError, match="Own images need --data=FOLDER"):
        recipes.resolve("wrn_10_2_s2.s2d")


def test_monte_carlo_needs_dropout():
    with pytest.raises(
        recipes.RecipeError, match="expected a network that is trained with dropout"
    ):
        resolve("fast_resnet.mc")


@pytest.mark.parametrize(
    "changes",
    [
        {"image_shape": (12, 10)},
        {"image_shape": (12, 100_000, 3)},
        {"image_shape": (12, 0, 3)},
        {"mean": (1.0,)},
        {"stddev": (1.0, 1.0)},
        {"class_names": ("ant", "ant")},
        {"class_names": ("ant",)},
        {"class_names": "ant"},
        {"images": "many"},
    ],
)
def test_wrong_facts_are_rejected(changes):
    values = resolve().to_dict()
    values["own_data"] |= changes
    values["num_classes"] = len(values["own_data"]["class_names"])
    with pytest.raises(recipes.RecipeError):
        recipes.Recipe.from_dict(values)


def test_names_stay_unique():
    assert recipes.own_name("flowers") == "flowers"
