"""Learning rates at epoch boundaries, worked out by hand."""

import numpy as np
import pytest

from s2d_tf.trainers.training import schedules
from s2d_tf.zoo import recipes

STEPS = 7


def rate(recipe, step):
    value = schedules.learning_rate(recipe, STEPS)
    return value if isinstance(value, float) else float(value(step))


def numpy_rate(recipe, step):
    """What the schedules are meant to be."""
    total = recipe.epochs * STEPS

    def steps(value):
        return round((value * recipe.epochs if value < 1 else value) * STEPS)

    rising = steps(recipe.warmup)
    if step < rising:
        return recipe.learning_rate * step / rising
    progress = min(1.0, (step - rising) / (total - rising))
    passed = sum(step >= steps(milestone) for milestone in recipe.milestones)
    factor = {
        "cosine": 0.5 * (1 + np.cos(np.pi * progress)),
        "linear": 1 - progress,
        "constant": 1.0,
        "steps": recipe.factor**passed,
    }[recipe.schedule]
    return recipe.learning_rate * factor


@pytest.mark.parametrize("warmup", [0, 1, 0.1, 1.5])
@pytest.mark.parametrize(
    ("schedule", "milestones"),
    [("cosine", ()), ("linear", ()), ("constant", ())]
    + [("steps", milestones) for milestones in ((), (2, 3), (0.5, 0.75), (0.05,))],
)
def test_every_schedule_at_every_step(schedule, milestones, warmup):
    recipe = recipes.TrainingRecipe(
        epochs=4,
        learning_rate=0.2,
        schedule=schedule,
        milestones=milestones,
        factor=0.3,
        warmup=warmup,
    )
    found = [rate(recipe, step) for step in range(4 * STEPS + 1)]
    expected = [numpy_rate(recipe, step) for step in range(4 * STEPS + 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def test_optimizers_have_the_numbers_of_their_recipes():
    muon = schedules.optimizer(recipes.resolve("fast_resnet.s2d.cifar100_plus").training, STEPS)
    assert type(muon).__name__ == "Muon"
    assert (muon.kernel_momentum, muon.sgd_ratio, muon.momentum) == (0.6, 6.0, 0.85)
    sgd = schedules.optimizer(recipes.resolve("wrn_28_10.s2d.cifar100").training, STEPS)
    assert type(sgd).__name__ == "SGD"
    assert (sgd.momentum, sgd.nesterov) == (0.9, True)
    assert not sgd.weight_decay, "decay is the model's: Keras' own is decoupled"


def test_a_rise_as_long_as_the_run_is_refused():
    recipe = recipes.TrainingRecipe(epochs=1, learning_rate=0.2, schedule="cosine", warmup=1)
    with pytest.raises(ValueError, match=r"less than the run's 1 epochs, received 1\. Use --set"):
        schedules.learning_rate(recipe, STEPS)
