"""Recipes by name: an architecture, a method and a dataset make an entry of the zoo."""

import difflib
import functools
import itertools
import json
import tomllib

from s2d_tf import _paths
from s2d_tf.recipes.records import SECTIONS, Recipe, RecipeError

PARTS = ("architecture", "method", "dataset")


def names():
    """All entries' names, `architecture.method.dataset`."""
    products = itertools.product(*map(_stems, PARTS))
    return [".".join(parts) for parts in products if _exists(_merge(*parts))]


@functools.cache
def resolve(name):
    """The `Recipe` of an entry; an unknown name lists the near ones."""
    parts = name.split(".")
    if not _known(parts):
        near = difflib.get_close_matches(name, names(), n=4, cutoff=0.4)
        hint = ", ".join(near) if near else "see `s2d list`"
        raise RecipeError(
            f"Expected a name architecture.method.dataset, received {name!r}; near: {hint}."
        )
    values = _merge(*parts)
    if not _exists(values):
        raise RecipeError(
            f"{name} does not exist: Monte Carlo dropout needs a network that is trained with "
            f"dropout, and {parts[0]} is trained on {parts[2]} without."
        )
    return Recipe.from_dict(values)


def snapshots(recipe):
    """Fractions of a recipe's epochs after which other methods start from its weights."""
    if not _known(recipe.name.split(".")):
        return set()
    others = [_merge(recipe.architecture, method, recipe.dataset) for method in _stems("method")]
    starts = [other["start"] for other in others if "start" in other]
    return {start.get("at", 1.0) for start in starts if start["method"] == recipe.method} - {1.0}


def override(recipe, assignments=(), epochs=None, members=None):
    """A recipe with some values changed, for example `["model.noise_stddev=0.2"]`.

    A student may have another loss: `["objective=normal_negative_log_likelihood"]`.
    """
    changes = recipe.to_dict()
    if epochs is not None:
        changes["training"]["epochs"] = epochs
    if members is not None:
        if recipe.draws == "point":
            raise RecipeError(f"{recipe.name} has one member, received --members={members}.")
        changes["num_members"] = members
    for assignment in assignments:
        key, _, text = assignment.partition("=")
        section, _, name = key.partition(".")
        if key == "objective" and recipe.objective:
            changes["objective"] = text
            continue
        if section not in SECTIONS or name not in changes[section]:
            known = [f"{s}.{n}" for s in SECTIONS for n in changes[s]]
            raise RecipeError(f"Expected one of {', '.join(known)}, received {assignment!r}.")
        try:
            changes[section][name] = json.loads(text)
        except json.JSONDecodeError:
            changes[section][name] = text
    return Recipe.from_dict(changes)


def _known(parts):
    return len(parts) == 3 and all(p in _stems(part) for p, part in zip(parts, PARTS, strict=True))


def _exists(values):
    return values.get("draws") != "dropout" or values["model"].get("dropout", 0) > 0


def _merge(*parts):
    """The three records as one: architecture, then dataset, then method, then special cases."""
    architecture, method, dataset = map(_load, PARTS, parts)
    merged = {section: {} for section in SECTIONS}
    records = (architecture, dataset, method)
    cases = [record.get("when", {}).get(other, {}) for record in records for other in parts]
    for values in (*records, *cases):
        for key, value in values.items():
            if key in SECTIONS:
                merged[key].update(value)
            elif key not in ("when", "extends"):
                merged[key] = value
    merged["source_dataset"] = dataset["dataset"]
    return merged | dict(zip(PARTS, parts, strict=True))


def _stems(part):
    return sorted(path.stem for path in (_paths.zoo_directory() / f"{part}s").glob("*.toml"))


@functools.cache
def _load(part, stem):
    """A record as its file has it; shared, so that nobody may change it."""
    path = _paths.zoo_directory() / f"{part}s" / f"{stem}.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return _extended(_load(part, values["extends"]), values) if "extends" in values else values


def _extended(base, values):
    """`base` with what `values` says instead, table by table."""
    tables = {key: _extended(base[key], value) for key, value in values.items() if isinstance(value, dict) and key in base}
    return base | values | tables
