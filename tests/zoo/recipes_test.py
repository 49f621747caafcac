"""Every name resolves to a recipe, also on one's own images; what is rejected."""

import dataclasses
import json

import pytest

from s2d_tf.zoo import recipes

NAME = "wrn_10_2_s2.s2d.digits"
METHODS = {
    "individual", "s2d", "mimo", "s2d_mimo", "swag", "s2d_swag", "mc", "s2d_mc", "ensemble",
    "s2d_ensemble", "end", "en2d", "h2d_dir", "h2d_gauss", "h2d", "plain_dir",
}  # fmt: skip
OWN = recipes.OwnData(
    image_shape=(12, 10, 3),
    class_names=("ant", "bee"),
    mean=(1.0, 2.0, 3.0),
    stddev=(4.0, 5.0, 6.0),
    images=1000,
    fingerprint="0" * 64,
)


def resolve_own(name="wrn_10_2_s2.s2d", dataset="pets", **changes):
    return recipes.resolve_own(name, dataset, dataclasses.replace(OWN, **changes))


def test_every_name_resolves_and_survives_json():
    names = recipes.names()
    assert len(names) == len(set(names))
    assert {name.split(".")[1] for name in names} == METHODS
    resolved = {name: recipes.resolve(name) for name in names}
    for name, recipe in (resolved | {"wrn_10_2_s2.s2d.pets": resolve_own()}).items():
        assert recipe.name == name
        assert recipes.Recipe.from_dict(json.loads(json.dumps(recipe.to_dict()))) == recipe


@pytest.mark.parametrize(
    ("resolve", "name", "message"),
    [
        (recipes.resolve, "wrn_10_2_s2.s2d.digit", r"near: .*wrn_10_2_s2\.s2d\.digits"),
        (recipes.resolve, "wrn_28_10.h2dgauss.cifar100", r"wrn_28_10\.h2d_gauss\.cifar100"),
        (recipes.resolve, "xyz", r"expected architecture\.method\.dataset, received 'xyz'"),
        (recipes.resolve, "wrn_10_2_s2.s2d", "Own images need --data=FOLDER"),
        (recipes.resolve, "densenet_bc_100_12.mc.cifar100_plus", "on cifar100_plus without"),
        (resolve_own, "wrn_10_2_s2.s2d.pets", r"architecture\.method for own .*wrn_10_2_s2\.s2d"),
        (resolve_own, "wrn_10_2.s2d", r"architecture\.method for own data.*wrn_10_2_s2\.s2d"),
        (resolve_own, "a.b", r"architecture\.method for own data"),
        (resolve_own, "fast_resnet.mc", "expected a network that is trained with dropout"),
    ],
)
def test_what_is_no_name_is_rejected_in_one_line(resolve, name, message):
    with pytest.raises(recipes.RecipeError, match=message) as error:
        resolve(name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values | {"surprise": 1}, r"unknown .*surprise"),
        (lambda v: {k: v[k] for k in v if k != "title"}, r"missing .*title"),
        (lambda v: v | {"training": v["training"] | {"lr": 1}}, r"training: .*unknown .*lr"),
        *((lambda _, v=v: v, "names and values") for v in ([], "recipe", None, 3)),
    ],
)
def test_damaged_records_are_rejected(change, message):
    with pytest.raises(recipes.RecipeError, match=message):
        recipes.Recipe.from_dict(change(recipes.resolve(NAME).to_dict()))


def test_own_images_have_the_networks_recipe_with_their_facts():
    recipe, known = resolve_own(), recipes.resolve("wrn_10_2_s2.s2d.cifar100")
    assert (recipe.num_classes, recipe.source_dataset) == (2, "pets")
    assert (recipe.image_shape, recipe.class_names) == ((12, 10, 3), ("ant", "bee"))
    assert (recipe.out_of_distribution, recipe.training) == ((), known.training)
    assert recipe.model == known.model
    assert recipe.data == dataclasses.replace(known.data, mean=OWN.mean, stddev=OWN.stddev)
    assert recipe.train_arguments == "wrn_10_2_s2.s2d --data=FOLDER"
    assert "own_data" not in known.to_dict()  # as version 0.1 wrote it


def test_siblings_are_on_the_same_images():
    ensemble = resolve_own("wrn_10_2_s2.ensemble").replace(training={"epochs": 3})
    for other in (ensemble.sibling("individual"), ensemble.member_recipe):
        assert (other.method, other.dataset, other.own_data) == ("individual", "pets", OWN)
    assert ensemble.member_recipe.training.epochs == 3


def test_snapshots_are_where_methods_of_the_same_network_and_data_start():
    assert recipes.snapshots(recipes.resolve("wrn_10_2_s2.s2d.cifar100")) == set()
    assert recipes.snapshots(resolve_own("wrn_28_10.s2d")) == {0.75}
    assert recipes.snapshots(resolve_own("wrn_28_10.individual")) == set()
    assert recipes.snapshots(recipes.resolve(NAME).replace(architecture="mine")) == set()


@pytest.mark.parametrize(
    ("images", "expected"), [(10**6, 64), (512, 64), (511, 32), (40, 4), (1, 1)]
)
def test_an_epoch_of_own_images_has_eight_batches(images, expected):
    assert resolve_own(images=images).data.batch_size == expected


@pytest.mark.parametrize("name", ["digits", "cifar100_plus", "svhn_cropped", "s2d", "wrn_28_10"])
def test_own_images_take_no_known_name(name):
    assert resolve_own(dataset=name).dataset == f"{name}_images"
    # Else the special cases of that record would hold for it.
    assert resolve_own(dataset=name).training == resolve_own().training


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
def test_wrong_facts_of_own_images_are_rejected(changes):
    values = resolve_own().to_dict()
    values["own_data"] |= changes
    values["num_classes"] = len(values["own_data"]["class_names"])
    with pytest.raises(recipes.RecipeError):
        recipes.Recipe.from_dict(values)
