"""Entries by name, folder or address. Names, entries and recipes need no TensorFlow."""

import dataclasses
import pathlib

from s2d_tf import recipes, storage
from s2d_tf.storage import entries, opening, sources


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the zoo.

    Attributes:
        name: `architecture.method.dataset`.
        recipe: all that defines its training.
        folder: where its weights and card are, or `None` if it has not been trained.
        record: what `entry.json` in that folder says, a `storage.entries.Record`, or `None`.
    """

    name: str
    recipe: recipes.Recipe
    folder: pathlib.Path | None = None
    record: entries.Record | None = None

    @property
    def pretrained(self) -> bool:
        return self.record is not None


def names(pretrained: bool | None = None) -> list:
    """Names of all entries, or only of those with (`True`) or without (`False`) weights."""
    held = sources.pretrained_names()
    return [n for n in recipes.names() if pretrained is None or (n in held) == pretrained]


def entry(name: str) -> Entry:
    """The `Entry` of a name; an unknown name lists the near ones."""
    recipe = recipes.resolve(name)
    if name not in sources.pretrained_names():
        return Entry(name, recipe)
    folder = sources.pretrained_directory() / name
    record = opening.read_record(sources.Folder(folder))
    if record.name != name:
        raise storage.ZooError(f"{folder}: expected the entry {name}, received {record.name}.")
    return Entry(name, record.recipe, folder, record)


def build(name: str, seed: int = 0):
    """The untrained network of an entry (of a deep ensemble: an ensemble of them)."""
    recipe = recipes.resolve(name)
    members = [(recipe, seed)]
    if recipe.draws == "ensemble":
        members = [(recipe.member_recipe, seed + i) for i in range(recipe.num_members)]
    return opening.build_model(recipe, members)


def load(where, sha256: str | None = None):
    """Loads a trained predictor; see `storage.open_model` for all that is known about it.

    Args:
        where: the name of an entry; the path or the http(s) address of an entry's folder; or a run
            directory.
        sha256: expected hash of the `entry.json`, to pin one version of an entry.

    Returns:
        A `models.Predictor`; it has the `class_names`, and the entry's record as `metadata`, which
        an export keeps.

    Example:

    >>> model = load("wrn_10_2_s2.s2d.digits")
    >>> model.num_members, len(model.class_names)
    (1, 8)
    """
    return storage.open_model(where, sha256).predictor


def listing(chosen: list) -> str:
    """A table of entries for a person."""
    held, width = sources.pretrained_names(), max(map(len, chosen))
    states = {name: "pretrained" if name in held else "not trained" for name in chosen}
    lines = [f"{n:{width}}  {state:11}  {recipes.resolve(n).title}" for n, state in states.items()]
    end = f"\n{len(chosen)} entries; `s2d train NAME --workdir=DIR` trains one."
    return "\n".join([*lines, end])
