"""Learning rates at epoch boundaries, worked out by hand."""

import math

import numpy as np
import pytest

from s2d_tf import recipes
from s2d_tf.training import schedules

STEPS = 7


def rate(recipe, step):
    value = schedules.learning_rate(recipe, STEPS)
    return value if isinstance(value, float) else float(value(step))


def by_epoch(name):
    """The rate in the first and in the last step of each epoch, counted from 1."""
    recipe = recipes.resolve(name).training
    return {
        epoch: (rate(recipe, (epoch - 1) * STEPS), rate(recipe, epoch * STEPS - 1))
        for epoch in range(1, recipe.epochs + 1)
    }


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "densenet_bc_100_12.individual.cifar100",
            {1: 0.1, 150: 0.1, 151: 0.01, 225: 0.01, 226: 0.001, 300: 0.001},
        ),
        (
            "wrn_28_10.individual.cifar100",
            {1: 0.1, 60: 0.1, 61: 0.02, 120: 0.02, 121: 0.004, 160: 0.004, 161: 8e-4, 200: 8e-4},
        ),
        (
            "densenet_bc_100_12.h2d_gauss.cifar100",
            {1: 5e-3, 75: 5e-3, 76: 2.5e-3, 150: 2.5e-3, 151: 1.25e-3, 170: 1.25e-3},
        ),
        ("wrn_28_10.h2d_gauss.cifar100", {1: 2e-3, 60: 2e-3, 61: 5e-4, 80: 5e-4}),
        ("densenet_bc_100_12.h2d_dir.cifar100", {1: 5e-5, 75: 5e-5, 150: 5e-5}),
        ("wrn_28_10.swag.cifar100", {1: 1e-4, 20: 1e-4}),
    ],
)
def test_steps(name, expected):
    rates = by_epoch(name)
    assert max(rates) == max(expected)
    for epoch, value in expected.items():
        np.testing.assert_allclose(rates[epoch], (value, value), rtol=1e-6)


def test_cosine():
    recipe = recipes.TrainingRecipe(epochs=4, learning_rate=0.2, schedule="cosine")
    for step in (0, 1, 7, 14, 27, 28):
        expected = 0.1 * (1 + math.cos(math.pi * step / 28))
        np.testing.assert_allclose(rate(recipe, step), expected, atol=1e-7)


def test_cosine_after_a_rise():
    recipe = recipes.TrainingRecipe(epochs=4, learning_rate=0.2, schedule="cosine", warmup=0.5)
    rising = round(0.5 * STEPS)
    for step in range(rising):
        np.testing.assert_allclose(rate(recipe, step), 0.2 * step / rising, atol=1e-7)
    for step in (rising, 14, 27, 28):
        expected = 0.1 * (1 + math.cos(math.pi * (step - rising) / (28 - rising)))
        np.testing.assert_allclose(rate(recipe, step), expected, atol=1e-7)


def test_fractions_follow_the_number_of_epochs():
    recipe = recipes.TrainingRecipe(epochs=4, learning_rate=1.0, milestones=(0.5, 0.75))
    found = [rate(recipe, epoch * STEPS) for epoch in range(4)]
    np.testing.assert_allclose(found, [1, 1, 0.1, 0.01], rtol=1e-6)


def test_optimizer_is_coupled_sgd():
    optimizer = schedules.optimizer(recipes.resolve("wrn_28_10.s2d.cifar100").training, STEPS)
    assert type(optimizer).__name__ == "SGD"
    assert (optimizer.momentum, optimizer.nesterov) == (0.9, True)
    assert not optimizer.weight_decay, "decay is the model's: Keras' own is decoupled"


def test_unknown_schedule_is_refused():
    recipe = recipes.TrainingRecipe(epochs=4, learning_rate=0.2, schedule="linear")
    with pytest.raises(ValueError, match=r"schedule must be one of .*cosine.*'linear'") as error:
        schedules.learning_rate(recipe, STEPS)
    assert "\n" not in str(error.value)


def test_a_rise_as_long_as_the_run_is_refused():
    recipe = recipes.TrainingRecipe(epochs=1, learning_rate=0.2, schedule="cosine", warmup=1)
    with pytest.raises(ValueError, match=r"less than 1 epochs, received 1; --set training.warmup"):
        schedules.learning_rate(recipe, STEPS)
