"""Other ways to draw members from the networks of a run, without training.

A network that was trained with dropout is also a Monte Carlo ensemble, and an ensemble of 20 holds
one of 5 and one of 10. Such a view has a folder of its own within the run, `as_mc` or
`as_ensemble_10`, with a recipe and metrics like those of a run.
"""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING

from s2d_tf.errors import UserError
from s2d_tf.evaluation.names import variant
from s2d_tf.zoo import Run
from s2d_tf.zoo.runs import RECIPE, VIEW

if TYPE_CHECKING:
    from s2d_tf.zoo.recipes import Recipe


def view(run: Run, method: str | None = None, members: int | None = None) -> Run:
    """The run with another recipe for the same weights; its predictor draws members so.

    Args:
        run: a `zoo.Run`.
        method: a Monte Carlo method whose network is trained as this run's was; None: its own.
        members: how many to draw, or to take of an ensemble, the first ones; None: the recipe's.
    """
    recipe = run.recipe
    if method is not None and method != recipe.method:
        named = recipe.sibling(method)
        if not is_its_network(recipe, named):
            raise UserError(
                f"method: expected {recipe.method} or its Monte Carlo method (mc of individual, "
                f"s2d_mc of s2d) for {run.directory}, received {method!r}. Train a network of that "
                "method."
            )
        recipe = drawn_as(recipe, named)
    if members is not None:
        if recipe.draws == "point":
            raise UserError(
                f"members: expected none for {run.directory}, which is a single network, received "
                f"{members!r}. Leave it out."
            )
        most = recipe.num_members if recipe.draws == "ensemble" else None
        if members < 1 or (most is not None and members > most):
            numbers = "at least 1" if most is None else f"a number from 1 to {most}"
            raise UserError(
                f"members: expected {numbers} for {run.directory}, received {members!r}. Choose "
                "another."
            )
        recipe = recipe.replace(num_members=members)
    return dataclasses.replace(run, recipe=recipe)


def directory(run: Run, viewed: Run) -> pathlib.Path:
    """Where the metrics of a view are: the run itself, if it is no other one."""
    if viewed.recipe == run.recipe:
        return run.directory
    return run.directory / f"{VIEW}{variant(viewed.recipe.method, viewed.recipe.num_members)}"


def held(run: Run) -> list[Run]:
    """The views of a run whose metrics are in it, as runs."""
    return [Run.open(path.parent) for path in sorted(run.directory.glob(f"{VIEW}*/{RECIPE}"))]


def own_member_directories(run: Run) -> list[pathlib.Path]:
    """An ensemble's member folders; none of a view, whose members are those of its run."""
    return run.member_directories if run.home == run.directory else []


def is_its_network(recipe: Recipe, named: Recipe) -> bool:
    """Whether a Monte Carlo method's network is trained exactly as this point model is."""
    fields = ("architecture", "dataset", "learns", "heads", "start")
    same = all(getattr(recipe, field) == getattr(named, field) for field in fields)
    return same and recipe.draws == "point" and named.draws == "dropout"


def drawn_as(recipe: Recipe, named: Recipe) -> Recipe:
    """A recipe's own numbers with another recipe's way to draw members."""
    members = recipe.num_members if recipe.draws == named.draws else named.num_members
    return recipe.replace(
        method=named.method, title=named.title, draws=named.draws, num_members=members
    )
