"""Learning rates as functions of the training step alone, so that a resumed run keeps its own."""

from __future__ import annotations

from collections.abc import Callable

import s2d_tf._backend  # noqa: F401
from s2d_tf._types import TensorLike

# isort: split
import keras
import tensorflow as tf

from s2d_tf.errors import UserError
from s2d_tf.optimizers import Muon
from s2d_tf.zoo.recipes import TrainingRecipe


def learning_rate(
    recipe: TrainingRecipe, steps_per_epoch: int
) -> float | keras.optimizers.schedules.LearningRateSchedule:
    """The learning-rate schedule of a recipe.

    "steps" multiplies by `factor` at each milestone, "cosine" and "linear" fall to zero over the
    run, "constant" stays. Each first rises in a line over `warmup`. Milestones and warm-up are
    epochs, or fractions of all epochs where they are below 1.
    """
    steps = round(recipe.epochs * steps_per_epoch)
    rising = round(_epochs(recipe.warmup, recipe) * steps_per_epoch)
    UserError.unless(
        not rising or rising < steps,
        f"training.warmup: expected less than the run's {recipe.epochs} epochs, received "
        f"{recipe.warmup:g}. Use --set training.warmup=0 to train without a warm-up.",
    )
    peak = recipe.learning_rate
    if recipe.schedule == "cosine":
        first, target = (0.0, peak) if rising else (peak, None)
        return keras.optimizers.schedules.CosineDecay(
            first, steps - rising, warmup_target=target, warmup_steps=rising
        )
    if recipe.schedule == "linear":
        schedule = keras.optimizers.schedules.PolynomialDecay(peak, steps - rising, 0.0)
    elif recipe.schedule == "steps" and recipe.milestones:
        epochs = [_epochs(milestone, recipe) for milestone in recipe.milestones]
        rates = [peak * recipe.factor**i for i in range(len(epochs) + 1)]
        # Keras changes after its boundary, the recipes at the first step of the epoch.
        boundaries = [round(epoch * steps_per_epoch) - 1 - rising for epoch in epochs]
        schedule = keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, rates)
    else:
        schedule = peak
    return WarmUp(schedule, peak, rising) if rising else schedule


def _epochs(value, recipe):
    return value * recipe.epochs if value < 1 else value


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    """A linear rise from 0 to `peak`, then a schedule, or `peak` itself, from its beginning."""

    def __init__(
        self, schedule: float | Callable[[tf.Tensor], tf.Tensor], peak: float, steps: int
    ) -> None:
        self.schedule = schedule
        self.peak = peak
        self.steps = steps

    def __call__(self, step: TensorLike) -> tf.Tensor:
        step = tf.cast(step, tf.float32)
        after = self.schedule
        if callable(after):
            after = after(tf.maximum(step - self.steps, 0.0))
        return tf.where(step < self.steps, self.peak * step / self.steps, after)


def optimizer(recipe: TrainingRecipe, steps_per_epoch: int) -> keras.optimizers.Optimizer:
    """The recipe's optimizer; weight decay is the model's, coupled."""
    rate = learning_rate(recipe, steps_per_epoch)
    if recipe.optimizer == "muon":
        return Muon(
            rate,
            momentum=recipe.muon_momentum,
            sgd_ratio=recipe.sgd_ratio,
            sgd_momentum=recipe.momentum,
        )
    if recipe.optimizer == "adam":
        return keras.optimizers.Adam(rate)
    return keras.optimizers.SGD(rate, momentum=recipe.momentum, nesterov=recipe.nesterov)
