"""Recipes by name: an architecture, a method and a dataset make an entry of the zoo."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import itertools
import tomllib
from typing import Any

from s2d_tf import _paths, data
from s2d_tf.zoo.recipe_fields import (
    SECTIONS,
    DataRecipe,
    ModelRecipe,
    OwnData,
    Recipe,
    RecipeError,
    Start,
    TrainingRecipe,
)

__all__ = [
    "PARTS",
    "SECTIONS",
    "DataRecipe",
    "ModelRecipe",
    "OwnData",
    "Recipe",
    "RecipeError",
    "Start",
    "TrainingRecipe",
    "names",
    "resolve",
    "resolve_own",
    "snapshots",
]

PARTS = ("architecture", "method", "dataset")
MIN_STEPS = 8
"""Batches that an epoch of own data has at least."""


def names() -> list[str]:
    """All entries' names, `architecture.method.dataset`.

    Example:

    >>> "wrn_10_2_s2.s2d.digits" in recipes.names()
    True
    """
    products = itertools.product(*map(_stems, PARTS))
    return [".".join(parts) for parts in products if _has_its_dropout(_merge(*parts))]


@functools.cache
def resolve(name: str) -> Recipe:
    """The `Recipe` of an entry.

    Raises:
        RecipeError: the name is unknown; the message lists the closest ones.

    Example:

    >>> recipes.resolve("densenet_bc_100_12.s2d.cifar100").training.epochs
    300
    """
    parts = name.split(".")
    if not _known(parts):
        own = " Own images need --data=FOLDER." if len(parts) == 2 else ""
        raise _unknown(name, names(), "architecture.method.dataset", own)
    return _read(name, _merge(*parts))


def resolve_own(name: str, dataset: str, own_data: OwnData) -> Recipe:
    """The `Recipe` of a network and a method on images of one's own.

    The network's record says how to train, as for a dataset that it has no special case for. The
    batch size is halved until an epoch has at least 8 batches. There is no augmentation.

    Args:
        name: `architecture.method`.
        dataset: what to call the data; see `own_name`.
        own_data: its `OwnData`.

    Raises:
        RecipeError: the name is unknown; the message lists the closest ones.

    Example:

    >>> own = recipes.OwnData((8, 8, 1), ("cat", "dog"), (127.0,), (64.0,), 8, "0" * 64)
    >>> recipes.resolve_own("wrn_10_2_s2.s2d", "pictures", own).name
    'wrn_10_2_s2.s2d.pictures'
    """
    check_network(name)
    dataset = own_name(dataset)
    architecture, method = name.split(".")
    return _read(f"{name}.{dataset}", _merge(architecture, method, dataset, own_data))


def check_network(name: str) -> None:
    """Rejects what is not the name `architecture.method` of a recipe for own data."""
    known = list(map(".".join, itertools.product(*map(_stems, PARTS[:2]))))
    if name not in known:
        raise _unknown(name, known, "architecture.method for own data")


def own_name(dataset: str) -> str:
    """A name for own data that no record of the zoo and no registered dataset has."""
    taken = dataset in data.names() or any(dataset in _stems(part) for part in PARTS)
    return f"{dataset}_images" if taken else dataset


@functools.cache
def network(architecture: str) -> dict[str, Any]:
    """The backbone of an architecture of the zoo and its arguments, as a recipe has them."""
    if architecture not in _stems("architecture"):
        raise _unknown(architecture, _stems("architecture"), "an architecture of the zoo")
    return {key: _load("architecture", architecture)[key] for key in ("backbone", "arguments")}


def snapshots(recipe: Recipe) -> set[float]:
    """Fractions of a recipe's epochs after which other methods start from its weights.

    Example:

    >>> recipes.snapshots(recipes.resolve("densenet_bc_100_12.s2d.cifar100"))
    {0.5}
    """
    if recipe.own_data is None and not _known(recipe.name.split(".")):
        return set()
    others = [
        _merge(recipe.architecture, method, recipe.dataset, recipe.own_data)
        for method in _stems("method")
    ]
    starts = [other["start"] for other in others if "start" in other]
    return {start.get("at", 1.0) for start in starts if start["method"] == recipe.method} - {1.0}


def _unknown(name, known, expected, more=""):
    """The error of a name that is none of the known ones."""
    near = difflib.get_close_matches(name, known, n=4, cutoff=0.4)
    hint = ", ".join(near) or "see `s2d list --all`"
    return RecipeError(f"name: expected {expected}, received {name!r}. Names near: {hint}.{more}")


def _known(parts):
    return len(parts) == 3 and all(p in _stems(part) for p, part in zip(parts, PARTS, strict=True))


def _read(name, values):
    if not _has_its_dropout(values):
        raise RecipeError(
            f"{name}: expected a network that is trained with dropout, as Monte Carlo dropout "
            f"needs it, received one that is trained on {values['dataset']} without. `s2d list "
            "--all` lists all entries."
        )
    return Recipe.from_dict(values)


def _has_its_dropout(values):
    return values.get("draws") != "dropout" or values["model"].get("dropout", 0) > 0


def _merge(architecture, method, name, own_data=None):
    """The three records as one: architecture, then dataset, then method, then special cases."""
    dataset = _own_record(name, own_data) if own_data else _load("dataset", name)
    records = (_load("architecture", architecture), dataset, _load("method", method))
    others = [*_lineage("architecture", architecture), *_lineage("method", method), name]
    cases = [record.get("when", {}).get(other, {}) for record in records for other in others]
    merged: dict[str, Any] = {section: {} for section in SECTIONS}
    for values in (*records, *cases):
        for key, value in values.items():
            if key in SECTIONS:
                merged[key].update(value)
            elif key not in ("when", "extends"):
                merged[key] = value
    numbers = merged["data"]
    while own_data and numbers["batch_size"] > max(1, own_data.images / MIN_STEPS):
        numbers["batch_size"] //= 2
    names = {"architecture": architecture, "method": method, "dataset": name}
    return merged | names | {"source_dataset": dataset["dataset"]}


def _own_record(name, own_data):
    """What a TOML file of `zoo/datasets` would say of own data."""
    return {
        "dataset": name,
        "num_classes": len(own_data.class_names),
        "own_data": dataclasses.asdict(own_data),
        "data": {"augmentation": "none", "mean": own_data.mean, "stddev": own_data.stddev},
    }


def _stems(part):
    return sorted(path.stem for path in (_paths.zoo_directory() / f"{part}s").glob("*.toml"))


@functools.cache
def _load(part, stem):
    """A record as its file has it; shared, so that nobody may change it."""
    path = _paths.zoo_directory() / f"{part}s" / f"{stem}.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    return _extended(_load(part, values["extends"]), values) if "extends" in values else values


def _lineage(part, stem):
    """A record's name after those that it extends: what holds for them holds for it."""
    base = _load(part, stem).get("extends")
    return [*(_lineage(part, base) if base else ()), stem]


def _extended(base, values):
    """`base` with what `values` says instead, table by table."""
    tables = {key for key, value in values.items() if isinstance(value, dict) and key in base}
    return base | values | {key: _extended(base[key], values[key]) for key in tables}
