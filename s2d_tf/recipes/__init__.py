"""Recipes as data: what is trained, and how. `recipes.build` makes networks of them."""

from s2d_tf.recipes.registry import (
    PARTS,
    DataRecipe,
    ModelRecipe,
    Recipe,
    RecipeError,
    Start,
    TrainingRecipe,
    names,
    override,
    resolve,
)

__all__ = [
    "PARTS",
    "DataRecipe",
    "ModelRecipe",
    "Recipe",
    "RecipeError",
    "Start",
    "TrainingRecipe",
    "names",
    "override",
    "resolve",
]
