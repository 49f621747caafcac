"""Recipes as data: an architecture, a method and a data set make an entry of the zoo."""

import copy
import dataclasses
import difflib
import functools
import itertools
import json
import tomllib

from s2d_tf import _paths, files
from s2d_tf.recipes import rules

PARTS = ("architecture", "method", "dataset")


class RecipeError(ValueError):
    """A recipe's name or file is wrong."""


@dataclasses.dataclass(frozen=True)
class DataRecipe:
    """What the network sees; statistics are of raw pixels."""

    mean: tuple
    stddev: tuple
    batch_size: int
    augmentation: str = "none"
    padding: str = "mean"
    max_shift: int = 4
    resolutions: tuple = ()
    resolution_milestones: tuple = ()


@dataclasses.dataclass(frozen=True)
class TrainingRecipe:
    """How the weights move. Warm-up and milestones: epochs, or below 1 fractions of them all.

    With the optimizer "muon", `learning_rate` is that of convolution kernels, and `sgd_ratio` times
    that the rate of all else; `momentum` is of all else.
    """

    epochs: int
    learning_rate: float
    schedule: str = "steps"
    milestones: tuple = ()
    factor: float = 0.1
    warmup: float = 0.0
    momentum: float = 0.9
    nesterov: bool = True
    weight_decay: float = 0.0
    optimizer: str = "sgd"
    sgd_ratio: float = 6.0
    muon_momentum: float = 0.6


@dataclasses.dataclass(frozen=True)
class ModelRecipe:
    """Numbers of the networks and their losses; each method uses those that concern it."""

    dropout: float = 0.0
    num_samples: int = 5
    noise_stddev: float | tuple = 0.1
    temperature: float = 1.5
    student_weight: float = 1.28e-4
    proxy: str = "newton"
    student_loss: str = "kl"
    reverse: bool = False
    num_draws: int = 50
    initial_scale: float = 0.5


@dataclasses.dataclass(frozen=True)
class Start:
    """Begin from another method's weights, at a fraction of its epochs."""

    method: str
    at: float = 1.0


@dataclasses.dataclass(frozen=True)
class Recipe:
    """All that defines a run, resolved: written to every run directory as `recipe.json`."""

    architecture: str
    method: str
    dataset: str
    title: str
    backbone: str
    arguments: dict
    source_dataset: str
    num_classes: int
    data: DataRecipe
    training: TrainingRecipe
    model: ModelRecipe
    learns: str | None = None
    heads: int = 1
    draws: str = "point"
    num_members: int = 1
    member: str | None = None
    teachers: str | None = None
    objective: str | None = None
    start: Start | None = None
    parameters: int | None = None
    out_of_distribution: tuple = ()

    @property
    def name(self):
        return f"{self.architecture}.{self.method}.{self.dataset}"

    def sibling(self, method):
        """The recipe of another method on the same network and data."""
        return resolve(f"{self.architecture}.{method}.{self.dataset}")

    @property
    def member_recipe(self):
        """What each member of a deep ensemble trains: the ensemble's own numbers."""
        numbers = {name: getattr(self, name) for name in ("arguments", "data", "training", "model")}
        return self.sibling(self.member).replace(**numbers)

    def replace(self, **changes):
        """A copy with other values; `training=`, `model=` and `data=` take dicts of changes."""
        for section in ("training", "model", "data"):
            if isinstance(changes.get(section), dict):
                changes[section] = dataclasses.replace(getattr(self, section), **changes[section])
        return dataclasses.replace(self, **changes)

    def to_dict(self):
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values):
        """Reads what `to_dict` wrote, checking every name, type and range."""
        return files.read_record(cls, values, "recipe", RecipeError).checked()

    def checked(self):
        """This recipe, if every number is in its range."""
        breach = rules.first_breach(self)
        if breach:
            name, expected, received = breach
            raise RecipeError(f"{name}: expected {expected}, received {received!r}.")
        return self


def names():
    """All entries' names, `architecture.method.dataset`."""
    products = itertools.product(*(_stems(part) for part in PARTS))
    return [".".join(parts) for parts in products if _exists(_merge(*parts))]


@functools.cache
def resolve(name):
    """The `Recipe` of an entry; an unknown name lists the near ones."""
    parts = name.split(".")
    known = len(parts) == 3 and all(p in _stems(part) for p, part in zip(parts, PARTS, strict=True))
    if not known:
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


def _exists(values):
    return values.get("draws") != "dropout" or values["model"].get("dropout", 0) > 0


def _merge(*parts):
    """The three records as one: architecture, then data set, then method, then special cases."""
    architecture, method, dataset = (
        _load(part, stem) for part, stem in zip(PARTS, parts, strict=True)
    )
    merged = {"data": {}, "training": {}, "model": {}}
    records = (architecture, dataset, method)
    cases = [record.get("when", {}).get(other, {}) for record in records for other in parts]
    for values in (*records, *cases):
        for key, value in values.items():
            if isinstance(merged.get(key), dict) and key in ("data", "training", "model"):
                merged[key].update(value)
            elif key not in ("when", "extends"):
                merged[key] = value
    merged["source_dataset"] = dataset["dataset"]
    return merged | dict(zip(PARTS, parts, strict=True))


def _stems(part):
    return sorted(path.stem for path in (_paths.zoo_directory() / f"{part}s").glob("*.toml"))


@functools.cache
def _load_cached(part, stem):
    path = _paths.zoo_directory() / f"{part}s" / f"{stem}.toml"
    values = tomllib.loads(path.read_text(encoding="utf-8"))
    if "extends" in values:
        base = _load(part, values["extends"])
        values = base | values
    return values


def _load(part, stem):
    return copy.deepcopy(_load_cached(part, stem))


def override(recipe, assignments=(), epochs=None, members=None):
    """A recipe with some numbers changed, for example `["model.noise_stddev=0.2"]`.

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
        if section not in ("data", "training", "model") or name not in changes[section]:
            known = [f"{s}.{n}" for s in ("data", "training", "model") for n in changes[s]]
            raise RecipeError(f"Expected one of {', '.join(known)}, received {assignment!r}.")
        try:
            changes[section][name] = json.loads(text)
        except json.JSONDecodeError:
            changes[section][name] = text
    return Recipe.from_dict(changes)
