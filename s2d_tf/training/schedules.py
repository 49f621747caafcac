"""Learning rates as functions of the training step alone, so that a resumed run keeps its own."""

import keras

from s2d_tf.training.recipe_rules import SCHEDULES
from s2d_tf.training.recipes import TrainingRecipe


def learning_rate(recipe: TrainingRecipe, steps_per_epoch):
    """The learning-rate schedule of a recipe.

    "steps" multiplies by `factor` at each milestone (epochs; below 1 a fraction of all epochs),
    "cosine" rises in a line over `warmup` epochs, then falls to zero over the rest of the run,
    "constant" stays.
    """
    if recipe.schedule == "constant" or (recipe.schedule == "steps" and not recipe.milestones):
        return recipe.learning_rate
    if recipe.schedule == "cosine":
        steps, rising = (round(n * steps_per_epoch) for n in (recipe.epochs, recipe.warmup))
        if rising and rising >= steps:
            raise ValueError(
                "training.warmup must be shorter than the run: expected less than "
                f"{recipe.epochs} epochs, received {recipe.warmup:g}; --set training.warmup=0 "
                "leaves it out."
            )
        if not rising:
            return keras.optimizers.schedules.CosineDecay(recipe.learning_rate, steps)
        return keras.optimizers.schedules.CosineDecay(
            0.0, steps - rising, warmup_target=recipe.learning_rate, warmup_steps=rising
        )
    if recipe.schedule == "steps":
        epochs = [m * recipe.epochs if m < 1 else m for m in recipe.milestones]
        rates = [recipe.learning_rate * recipe.factor**i for i in range(len(epochs) + 1)]
        # Keras changes after its boundary, the recipes at the first step of the epoch.
        boundaries = [round(epoch * steps_per_epoch) - 1 for epoch in epochs]
        return keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, rates)
    raise ValueError(f"schedule must be one of {SCHEDULES}, received {recipe.schedule!r}.")


def optimizer(recipe: TrainingRecipe, steps_per_epoch):
    """The recipe's SGD; weight decay is the model's, coupled."""
    return keras.optimizers.SGD(
        learning_rate(recipe, steps_per_epoch), momentum=recipe.momentum, nesterov=recipe.nesterov
    )
