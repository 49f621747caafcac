"""The model zoo: every architecture, method and data set by name, some with trained weights.

Names, entries and recipes need no TensorFlow; `build` and `load` do.
"""

import contextlib
import dataclasses
import hashlib
import json
import os
import pathlib

from s2d_tf import _paths, recipes
from s2d_tf.storage import entries, sources
from s2d_tf.storage.entries import ZooError

__all__ = ["Entry", "ZooError", "build", "entry", "listing", "load", "names"]


@dataclasses.dataclass(frozen=True)
class Entry:
    """An entry of the zoo.

    Attributes:
        name: `architecture.method.dataset`.
        recipe: all that defines its training.
        folder: where its weights and card lie, or `None` where it has not been trained.
        record: what `entry.json` in that folder says, a `entries.Record`, or `None`.
    """

    name: str
    recipe: recipes.Recipe
    folder: pathlib.Path | None = None
    record: entries.Record | None = None

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
    held = _pretrained_names()
    return [name for name in known if (name in held) == pretrained]


def entry(name):
    """The `Entry` of a name; an unknown name lists the near ones."""
    recipe = recipes.resolve(name)
    if name not in _pretrained_names():
        return Entry(name, recipe)
    folder = directory() / name
    record = _read_record(sources.Folder(folder))
    if record.name != name:
        raise ZooError(f"{folder} holds the entry {record.name}: move it to that name.")
    return Entry(name, record.recipe, folder, record)


def build(name, seed=0):
    """The untrained network of an entry (of a deep ensemble: an ensemble of them)."""
    recipe = recipes.resolve(name)
    count = recipe.num_members if recipe.draws == "ensemble" else 1
    return _build(recipe, range(seed, seed + count))


def load(where, sha256=None):
    """A trained predictor, ready to answer.

    Args:
        where: the name of an entry; or, for somebody else's, the path or the http(s) address of an
            entry's folder, as `s2d publish` makes it. Its network is built by this library and the
            arrays are checked before they are used, so an entry can be wrong but does no harm.
        sha256: of the `entry.json`, to be sure which one it is.

    Returns:
        A `models.Predictor`; it has the entry's `class_names`, and its record as `metadata`, which
        an export keeps.
    """
    own = isinstance(where, str) and "://" not in where and os.sep not in where
    own = own and (where in recipes.names() or not os.path.isdir(where))
    if own:
        found = entry(where)
        if not found.pretrained:
            raise ZooError(f"{where} has no weights yet: `{found.command}` trains it.")
        source = sources.Folder(found.folder)
    else:
        source = sources.find(where)
    record = _read_record(source, sha256)
    predictor = _build(record.recipe, [item.seed for item in record.weights])
    _load_weights(predictor, record, source, isolated=not own)
    if (predictor.kind, predictor.num_members) != (record.kind, record.num_members):
        raise ZooError(
            f"{source}: expected {predictor.num_members} {predictor.kind} members, received "
            f"{record.num_members} {record.kind}."
        )
    predictor.class_names = record.class_names
    predictor.metadata = {"name": record.name, "entry": json.loads(record.to_json())}
    return predictor


def listing(chosen):
    """A table of entries for a person."""
    lines, width, held = [], max(len(name) for name in chosen), _pretrained_names()
    for name in chosen:
        state = "pretrained" if name in held else "not trained"
        lines.append(f"{name:{width}}  {state:11}  {recipes.resolve(name).title}")
    lines.append(f"\n{len(chosen)} entries; `s2d train NAME --workdir=DIR` trains one.")
    return "\n".join(lines)


def directory():
    """The folder of the entries with weights."""
    return _paths.zoo_directory() / "pretrained"


def _pretrained_names():
    return {path.parent.name for path in directory().glob(f"*/{entries.ENTRY}")}


def _read_record(source, sha256=None):
    text = source.read(entries.ENTRY, entries.MAX_TEXT_BYTES)
    if sha256 is not None and hashlib.sha256(text).hexdigest() != sha256:
        raise ZooError(f"{source}/{entries.ENTRY} does not match the sha256 that was asked for.")
    record = entries.read(text, f"{source}/{entries.ENTRY}")
    return record


def _build(recipe, seeds):
    from s2d_tf.recipes import build as builder

    if recipe.draws != "ensemble":
        (seed,) = seeds
        return builder.build_predictor(recipe, [builder.build_network(recipe, seed)])
    networks = [builder.build_network(recipe.member_recipe, seed) for seed in seeds]
    return builder.build_predictor(recipe, networks)


def _load_weights(predictor, record, source, isolated):
    """All files are read and checked before the first weight is set."""
    from s2d_tf.storage import weights

    held = []
    with weights.Checker() if isolated else contextlib.nullcontext() as checker:
        for network, item in zip(predictor.networks, record.weights, strict=True):
            place, data = _read_weights(source, item, weights.size_limit(network))
            held.append((network, weights.parse(data, network, place, item.sha256, checker)))
    for network, arrays in held:
        weights.assign(network, arrays)


def _read_weights(source, item, limit):
    """A weights file of an entry or of the one that it refers to: beside it, else in this zoo."""
    if item.entry is None:
        return f"{source}/{item.file}", source.read(item.file, limit)
    beside = source.sibling(item.entry)
    try:
        return f"{beside}/{item.file}", beside.read(item.file, limit)
    except ZooError as error:
        ours = sources.Folder(directory() / item.entry)
        if not (ours.path / item.file).is_file():
            raise ZooError(f"{source} refers to weights of {item.entry}: {error}") from None
        return f"{ours}/{item.file}", ours.read(item.file, limit)
