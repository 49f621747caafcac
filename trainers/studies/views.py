"""Other ways to draw members from the networks of a run, without training it again.

A network that was trained with dropout is also a Monte Carlo ensemble, and an ensemble of 20 holds
one of 5 and one of 10. Such a view has a folder of its own within the run, `as_mc` or
`as_ensemble_10`, with a recipe and metrics like those of a run.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from s2d_tf.errors import UserError
from s2d_tf.zoo import Run, is_run
from s2d_tf.zoo.runs import METRICS, VIEW

if TYPE_CHECKING:
    from s2d_tf.zoo.recipes import Recipe

USUAL_MEMBERS = 5
"""Members of an ensemble whose method's name needs no number."""


def variant(method: str, members: int | None = None) -> str:
    """`method`, with the number of members where it is not the usual 5: `"ensemble_10"`."""
    return method if members in (None, USUAL_MEMBERS) else f"{method}_{members}"


def view(run: Run, method: str | None = None, members: int | None = None) -> Run:
    """The run with another recipe for the same weights, in a folder of its own; not written yet.

    Args:
        run: a `zoo.Run`.
        method: a Monte Carlo method whose network is trained as this run's was; None: its own.
        members: how many to draw, or to take of an ensemble, the first ones; None: the recipe's.
    """
    recipe = run.recipe
    if method is not None and method != recipe.method:
        named = recipe.sibling(method)
        UserError.unless(
            is_its_network(recipe, named),
            f"method: expected {recipe.method} or its Monte Carlo method (mc of individual, "
            f"s2d_mc of s2d) for {run.directory}, received {method!r}. Train a network of that "
            "method.",
        )
        recipe = drawn_as(recipe, named)
    if members is not None:
        most = {"point": 1, "ensemble": recipe.num_members}.get(recipe.draws, members)
        UserError.unless(
            1 <= members <= most,
            f"members: expected a number from 1 to {most} for {run.directory}, received "
            f"{members!r}. Choose another.",
        )
        recipe = recipe.replace(num_members=members)
    if recipe == run.recipe:
        return run
    folder = run.directory / f"{VIEW}{variant(recipe.method, recipe.num_members)}"
    return dataclasses.replace(run, recipe=recipe, directory=folder)


def nested(run: Run) -> list[Run]:
    """A run, its members, and the views of each that were evaluated."""
    # A view's members are those of its run.
    members = run.member_directories if run.home == run.directory else []
    viewed = [path.parent for path in sorted(run.directory.glob(f"{VIEW}*/{METRICS}"))]
    inside = [Run.open(each) for each in (*members, *viewed) if is_run(each)]
    return [run, *(part for each in inside for part in nested(each))]


def is_its_network(recipe: Recipe, named: Recipe) -> bool:
    """Whether a Monte Carlo method's network is trained exactly as this point model is."""
    fields = ("architecture", "dataset", "learns", "heads", "start")
    same = all(getattr(recipe, field) == getattr(named, field) for field in fields)
    return same and recipe.draws == "point" and named.draws == "dropout"


def drawn_as(recipe: Recipe, named: Recipe) -> Recipe:
    """A recipe's own numbers with another recipe's way to draw members."""
    members = recipe.num_members if recipe.draws == named.draws else named.num_members
    return recipe.replace(
        method=named.method,
        title=named.title,
        draws=named.draws,
        num_members=members,
        out_of_distribution=named.out_of_distribution,
    )
