"""The model zoo: every architecture, method and data set by name, some with trained weights.

Names, entries and recipes need no TensorFlow; `build` and `load` do.
"""

import dataclasses
import json
import pathlib

from s2d_tf import _paths
from s2d_tf.training import recipes


class ZooError(ValueError):
    """An entry is unknown, has no weights, or its files are damaged."""


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the zoo.

    Attributes:
        name: `architecture.method.dataset`.
        recipe: all that defines its training.
        folder: where its weights and card lie, or `None` where it has not been trained.
        record: what `entry.json` in that folder says, or `None`.
    """

    name: str
    recipe: recipes.Recipe
    folder: pathlib.Path | None = None
    record: dict | None = None

    @property
    def pretrained(self):
        return self.record is not None

    @property
    def command(self):
        """The command that trains it."""
        return f"s2d train {self.name} --workdir=DIR"


def names(pretrained=None):
    """Names of all entries, or only of those with (`True`) or without (`False`) weights."""
    known = recipes.names()
    if pretrained is None:
        return known
    held = {folder.name for folder in _pretrained_folders()}
    return [name for name in known if (name in held) == pretrained]


def entry(name):
    """The `Entry` of a name; an unknown name lists the near ones."""
    recipe = recipes.resolve(name)
    for folder in _pretrained_folders():
        if folder.name == name:
            return _read(folder)
    return Entry(name, recipe)


def build(name, seed=0):
    """The untrained network of an entry (of a deep ensemble: an ensemble of them)."""
    from s2d_tf.training import build as builder

    recipe = recipes.resolve(name)
    if recipe.draws != "ensemble":
        return builder.build_predictor(recipe, [builder.build_network(recipe, seed)])
    member = recipe.member_recipe
    networks = [builder.build_network(member, seed + i) for i in range(recipe.num_members)]
    return builder.build_predictor(recipe, networks)


def listing(chosen):
    """A table of entries for a person."""
    lines, width = [], max(len(name) for name in chosen)
    for name in chosen:
        found = entry(name)
        state = "pretrained" if found.pretrained else "not trained"
        lines.append(f"{name:{width}}  {state:11}  {found.recipe.title}")
    lines.append(f"\n{len(chosen)} entries; `s2d train NAME --workdir=DIR` trains one.")
    return "\n".join(lines)


def _pretrained_folders():
    folder = _paths.zoo_directory() / "pretrained"
    return sorted(path.parent for path in folder.glob("*/entry.json"))


def _read(folder):
    record = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    return Entry(record["name"], recipes.Recipe.from_dict(record["recipe"]), folder, record)
