"""Recipes as data: what is trained, and how. `recipes.build` makes networks of them."""

from s2d_tf.recipes.records import (
    DataRecipe,
    Encoder,
    ModelRecipe,
    OwnData,
    Recipe,
    RecipeError,
    Start,
    TrainingRecipe,
)
from s2d_tf.recipes.registry import (
    PARTS,
    names,
    override,
    overrides,
    resolve,
    resolve_own,
    snapshots,
)

__all__ = [
    "PARTS",
    "DataRecipe",
    "Encoder",
    "ModelRecipe",
    "OwnData",
    "Recipe",
    "RecipeError",
    "Start",
    "TrainingRecipe",
    "names",
    "override",
    "overrides",
    "resolve",
    "resolve_own",
    "snapshots",
]
