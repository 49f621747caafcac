"""Which runs may be published under which name."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from s2d_tf.errors import UserError
from s2d_tf.evaluation import views

if TYPE_CHECKING:
    from s2d_tf.zoo import Run
    from s2d_tf.zoo.recipes import Recipe

SECTIONS = ("data", "training", "model")


class PublishError(UserError):
    """A run cannot be published as the requested entry."""


def check_run(run: Run, named: Recipe, other_numbers: bool = False) -> dict[str, tuple[Any, Any]]:
    """Rejects a run that is unfinished, of another recipe or seed, or of several splits.

    Returns:
        `{number: (value in the recipe, value of the run)}`, empty unless `other_numbers`.
    """
    if not run.finished:
        raise PublishError(
            f"{run.directory}: expected a finished run, received one that is not. Run `s2d "
            f"train {run.recipe.name} --workdir={run.directory}` to continue it."
        )
    members = run.members
    splits = {part.split for part in (run, *members)}
    if len(splits) > 1:
        raise PublishError(
            f"{run.directory}: expected members of one split, received {sorted(splits)}. Train all "
            "of them with the same --split."
        )
    seeds = [part.seed for part in members or [run]]
    if seeds != list(range(len(seeds))):
        raise PublishError(
            f"{run.directory}: expected seed 0, or 0, 1, 2, ... of an ensemble, received "
            f"{seeds}. Publish a run with these seeds."
        )
    if run.recipe.name != named.name and not views.is_its_network(run.recipe, named):
        raise PublishError(
            f"{run.directory}: expected a run of {named.name}, received one of "
            f"{run.recipe.name}. Pass another --name."
        )
    changes = _differences(run.recipe, named)
    for member in members:
        expected = named.member_recipe
        if member.recipe.name != expected.name:
            raise PublishError(
                f"{member.directory}: expected a run of {expected.name}, received one of "
                f"{member.recipe.name}. Train the members with the ensemble's recipe."
            )
        changes |= _differences(member.recipe, expected)
    if changes and not other_numbers:
        listed = "; ".join(f"{k} {a} -> {b}" for k, (a, b) in list(changes.items())[:5])
        raise PublishError(
            f"{run.directory}: expected the numbers of the recipe of {named.name}, received "
            f"others ({listed}). Pass --other_numbers to publish it anyway."
        )
    return changes


def _differences(recipe, named):
    ours, theirs = (
        {f"{s}.{k}": v for s in SECTIONS for k, v in dataclasses.asdict(getattr(r, s)).items()}
        for r in (recipe, named)
    )
    found = {key: (theirs[key], ours[key]) for key in ours if ours[key] != theirs[key]}
    if recipe.draws == named.draws and recipe.num_members != named.num_members:
        found["num_members"] = (named.num_members, recipe.num_members)
    return found
