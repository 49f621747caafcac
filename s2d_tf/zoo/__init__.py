"""The model zoo: every architecture, method and dataset by name, some with trained weights."""

from s2d_tf.zoo.entries import Entry, ZooError, directory, entry, listing, names
from s2d_tf.zoo.loading import TrainedModel, build, load, open_model, open_run
from s2d_tf.zoo.recipes import Recipe, RecipeError
from s2d_tf.zoo.runs import Run, RunError, is_run

__all__ = [
    "Entry",
    "Recipe",
    "RecipeError",
    "Run",
    "RunError",
    "TrainedModel",
    "ZooError",
    "build",
    "directory",
    "entry",
    "is_run",
    "listing",
    "load",
    "names",
    "open_model",
    "open_run",
]
