"""From a recipe to Keras objects: the three choices of which every method is a product."""

from __future__ import annotations

from typing import Any

from s2d_tf import backbones, losses, models
from s2d_tf.backbones.fast_resnet import SMALLEST_CROPPED
from s2d_tf.zoo.recipe_fields import OBJECTIVES, Recipe


def build_network(
    recipe: Recipe, seed: int = 0, synchronized_batch_norm: bool = False, free_size: bool = False
) -> models.Classifier:
    """The network that a recipe trains, with fresh weights.

    Args:
        recipe: a `Recipe`.
        seed: fixes initial weights and noise.
        synchronized_batch_norm: batch statistics over all replicas.
        free_size: take images of any size, as training with changing resolutions needs.
    """
    *size, channels = recipe.image_shape
    if free_size:
        smallest = round(min(recipe.data.resolutions, default=1) * min(size))
        if recipe.backbone == "fast_resnet" and smallest < SMALLEST_CROPPED:
            raise ValueError(
                f"data.resolutions: expected stages of at least {SMALLEST_CROPPED} pixels, "
                f"received one of {smallest}. Use larger fractions of the {min(size)} pixels of "
                f"{recipe.source_dataset}, or --set data.resolutions=[] --set "
                "data.resolution_milestones=[]."
            )
        size = [None, None]
    backbone = getattr(backbones, recipe.backbone)(
        input_shape=(*size, channels * recipe.heads),
        dropout=recipe.model.dropout,
        seed=seed,
        synchronized_batch_norm=synchronized_batch_norm,
        **recipe.arguments,
    )
    common: dict[str, Any] = {
        "mean": recipe.data.mean,
        "stddev": recipe.data.stddev,
        "weight_decay": recipe.training.weight_decay,
        "num_heads": recipe.heads,
        "seed": seed,
    }
    model = recipe.model
    if recipe.learns == "labels":
        return models.Classifier(backbone, recipe.num_classes, **common)
    if recipe.learns == "self":
        return models.S2DClassifier(
            backbone,
            recipe.num_classes,
            num_samples=model.num_samples,
            noise_stddev=model.noise_stddev,
            temperature=model.temperature,
            student_weight=model.student_weight,
            proxy=model.proxy,
            student_loss=model.student_loss,
            **common,
        )
    return models.Student(
        backbone,
        recipe.num_classes,
        _objective(recipe),
        num_draws=model.num_draws,
        initial_scale=model.initial_scale,
        **common,
    )


def _objective(recipe):
    model = recipe.model
    name, *arguments = OBJECTIVES[recipe.objective]
    objective = getattr(losses, name)(**{key: getattr(model, key) for key in arguments})
    if model.distribution_weight is None:
        return objective
    return losses.WithSoftCrossEntropy(
        objective, model.distribution_weight, model.temperature, model.scale_student
    )


def build_predictor(recipe: Recipe, networks: list[Any]) -> models.Predictor:
    """The predictor that draws a recipe's members from its trained networks.

    Args:
        recipe: a `Recipe`.
        networks: what `build_network` made; one, or for a deep ensemble all members.
    """
    if recipe.draws == "ensemble":
        return models.Ensemble(networks)
    (network,) = networks
    wrap = {"dropout": models.MonteCarloDropout, "swag": models.SWAG}.get(recipe.draws)
    return wrap(network, recipe.num_members) if wrap else network
