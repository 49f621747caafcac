"""Every method takes two steps of its recipe on a tiny network and predicts uncertainties."""

import numpy as np
import pytest

from s2d_tf import backbones, data, losses, models, uncertainty
from s2d_tf.trainers.training import schedules
from s2d_tf.zoo import networks, recipes
from tests.trainers.training import small_runs
from tests.zoo.recipes_test import METHODS

TINY = {"depth": 10, "width": 1, "stem_stride": 2}


def tiny(method):
    return recipes.resolve(f"wrn_10_2_s2.{method}.digits").replace(arguments=TINY)


@pytest.fixture(scope="module")
def digits():
    images, labels = data.load_arrays("digits", "train")
    return images[:64], labels[:64]


# Products of what the others show one by one.
PRODUCTS = ("mimo", "s2d_swag", "s2d_mc", "ensemble")


@pytest.mark.parametrize(
    "method",
    [pytest.param(m, marks=pytest.mark.slow) if m in PRODUCTS else m for m in sorted(METHODS)],
)
def test_two_steps(method, digits, monkeypatch):
    monkeypatch.setattr(backbones, "tiny", small_runs.tiny, raising=False)

    def small(method):
        return tiny(method).replace(backbone="tiny", arguments={})

    recipe = small(method)
    members = 2 if recipe.draws == "ensemble" else 1
    trained = recipe.member_recipe if members == 2 else recipe
    trained = trained.replace(backbone="tiny")
    built = [networks.build_network(trained, seed) for seed in range(members)]
    network = built[0]
    network.compile(schedules.optimizer(trained.training, 2), run_eagerly=True)
    if recipe.learns == "teachers":
        teacher = small(recipe.teachers).member_recipe.replace(backbone="tiny")
        network.learn_from(models.Ensemble([networks.build_network(teacher, seed=5)]))
    dataset = data.train_pipeline(
        *digits, batch_size=trained.data.batch_size, seed=0, num_heads=trained.heads
    )
    before = [w.copy() for w in network.get_weights()]
    history = network.fit(dataset, steps_per_epoch=2, verbose=0).history
    assert all(np.isfinite(values).all() for values in history.values())
    after = network.get_weights()
    assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    predictor = networks.build_predictor(recipe, built)
    if recipe.draws == "swag":
        predictor.recompute_statistics([digits[0][:32], digits[0][32:]])
    stack = predictor.member_logits(digits[0][:8])
    answer = uncertainty.from_members(predictor.kind, stack)
    assert answer["probs"].shape == (8, 8)
    assert all(np.isfinite(value).all() for value in answer.values())
    dirichlet = method.startswith(("s2d", "h2d", "en2d", "plain_dir"))
    assert predictor.kind == ("dirichlet" if dirichlet else "categorical")
    drawn = 5 if recipe.draws in ("swag", "dropout") else members * recipe.heads
    assert stack.shape == (50 if method == "h2d_gauss" else drawn, 8, 8)


def test_numbers_of_the_recipe_reach_the_model():
    numbers = {"noise_stddev": (0.1, 0.2), "temperature": 2.0, "student_weight": 0.3}
    recipe = tiny("s2d").replace(model=numbers | {"dropout": 0.4}, training={"weight_decay": 0.7})
    network = networks.build_network(recipe, seed=3)
    assert network.noise.stddev == (0.1, 0.2)
    assert (network.temperature, network.student_weight) == (2.0, 0.3)
    assert (network.weight_decay, network.seed) == (0.7, 3)
    assert network.mean == recipe.data.mean
    assert network.image_shape == (8, 8, 1)
    rates = {layer.rate for layer in network.backbone.layers if hasattr(layer, "rate")}
    assert rates == {0.4}


def test_numbers_of_the_recipe_reach_a_student():
    numbers = {"distribution_weight": 0.3, "temperature": 2.0, "scale_student": False}
    student = networks.build_network(tiny("h2d_gauss").replace(model=numbers | {"num_draws": 7}))
    objective, term = student.objective, student.objective.categorical
    assert (student.kind, student.num_members) == ("dirichlet", 7)
    assert (objective.weight, term.temperature, term.scale_student) == (0.3, 2.0, False)
    assert type(objective.distribution) is losses.NormalKLDivergence
    plain = networks.build_network(tiny("h2d_gauss"))
    assert type(plain.objective) is losses.NormalKLDivergence
    unscaled = tiny("end").replace(model={"scale_student": False})
    assert not networks.build_network(unscaled).objective.scale_student
