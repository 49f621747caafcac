"""One way to open a trained model, wherever it is.

TensorFlow is imported when a model is opened, not before: `s2d list` and tables need none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from s2d_tf._types import PathLike
from s2d_tf.zoo import recipes, sources
from s2d_tf.zoo.entries import MAX_TEXT_BYTES, Record, ZooError, read
from s2d_tf.zoo.layout import ENTRY
from s2d_tf.zoo.recipes import Recipe
from s2d_tf.zoo.runs import Run, RunError, is_run

if TYPE_CHECKING:
    from s2d_tf.models import Predictor
    from s2d_tf.zoo.sources import Source


@dataclasses.dataclass(frozen=True)
class Opened:
    """A trained model and what is known about it.

    Attributes:
        predictor: the `models.Predictor`; it has the `class_names` and `metadata` too.
        recipe: the resolved recipe.
        seeds: of the training runs, one for each network.
        split: what it was trained on.
        class_names: one for each class.
        metadata: what an export keeps: the entry's record, or the run's recipe, seed, split and
            fitted steps.
        run: the run, if it is one.
        record: the entry's record, if it is one.

    Example:

    >>> opened = zoo.open_model("wrn_10_2_s2.s2d.digits")
    >>> opened.split, opened.seeds
    ('train', (0,))
    """

    predictor: Predictor
    recipe: Recipe
    seeds: tuple
    split: str
    class_names: Any
    metadata: dict
    run: Run | None = None
    record: Record | None = None

    def __post_init__(self) -> None:
        self.predictor.class_names, self.predictor.metadata = self.class_names, self.metadata

    @property
    def name(self) -> str:
        """`architecture.method.dataset`."""
        return self.recipe.name


def open_model(where: PathLike, sha256: str | None = None) -> Opened:
    """Opens a trained model.

    Args:
        where: a run directory; the name of a zoo entry; or the path or the http(s) address of an
            entry's folder, as `s2d publish` writes it. A folder that has the name of an entry is
            meant by a `pathlib.Path` or `./NAME`. The network is built by this library and the
            arrays are checked before they are used, so files can be wrong but do no harm.
        sha256: expected hash of the `entry.json`, to pin one version of an entry.

    Raises:
        ZooError: an entry has no weights, or its files are damaged.
        RunError: a run is not finished or damaged.

    Example:

    >>> opened = zoo.open_model("wrn_10_2_s2.s2d.digits")
    >>> opened.recipe.method, opened.predictor.num_members
    ('s2d', 1)
    """
    if not is_run(where) or sources.is_name(where):
        return open_entry(sources.find(where), sha256)
    if sha256 is not None:
        raise RunError(
            f"sha256: expected None for the run directory {where}, received {sha256!r}. Leave it "
            "out; it is for entries."
        )
    return open_run(Run.open(where))


def open_run(run: Run, with_steps: bool = True) -> Opened:
    """Opens a finished run; see `open_model`.

    Args:
        run: the run.
        with_steps: with its fitted post-hoc steps, if any, or without.

    Raises:
        RunError: the run is not finished.

    Example:

    >>> zoo.open_run(zoo.Run.open("run")).predictor.kind
    'dirichlet'
    """
    from s2d_tf.zoo import steps, weights

    if not run.finished:
        command = [
            f"s2d train {run.recipe.train_arguments}",
            f"--workdir={shlex.quote(str(run.directory))} --seed={run.seed}",
            *([f"--split={run.split}"] if run.split != "train" else []),
            *recipes.overrides(run.recipe),
        ]
        raise RunError(
            f"{run.directory}: expected a finished run, received one that is not finished. "
            f"`{' '.join(command)}` continues it, with the "
            "--data_dir, --teachers and --start that it had, if any."
        )
    parts = run.members or [run]
    predictor = build_model(run.recipe, [(part.recipe, part.seed) for part in parts])
    for network, part in zip(predictor.networks, parts, strict=True):
        weights.load(network, part.weights())
    stepped = steps.on_run(run.directory, predictor) if with_steps else predictor
    fitted = {} if stepped is predictor else {"steps": steps.summaries(stepped)}
    return Opened(
        stepped,
        run.recipe,
        seeds=tuple(part.seed for part in parts),
        split=run.split,
        class_names=run.recipe.class_names,
        metadata={
            "name": run.recipe.name,
            "recipe": run.recipe.to_dict(),
            "seed": run.seed,
            "split": run.split,
            **fitted,
        },
        run=run,
    )


def open_entry(source: Source, sha256: str | None = None) -> Opened:
    """Opens the entry of a source; see `open_model`."""
    from s2d_tf.zoo import steps, weights

    record = read_record(source, sha256)
    recipe = record.recipe
    member = recipe.member_recipe if recipe.draws == "ensemble" else recipe
    predictor = build_model(recipe, [(member, item.seed) for item in record.weights])
    # All files are read and checked before the first weight is set.
    pairs = list(zip(record.weights, predictor.networks, strict=True))
    held = [_read_weights(source, *pair) for pair in pairs]
    for (_, network), arrays in zip(pairs, held, strict=True):
        weights.assign(network, arrays)
    if (predictor.kind, predictor.num_members) != (record.kind, record.num_members):
        raise ZooError(
            f"{source}: expected {predictor.num_members} {predictor.kind} members, received "
            f"{record.num_members} {record.kind}. Get the entry again."
        )
    _state_ranges(predictor, record.inputs, source)
    return Opened(
        steps.on_entry(source, record.steps, predictor),
        recipe,
        seeds=tuple(item.seed for item in record.weights),
        split=record.provenance.get("split", "train"),
        class_names=record.class_names,
        metadata={"name": record.name, "entry": json.loads(record.to_json())},
        record=record,
    )


def read_record(source: Source, sha256: str | None = None) -> Record:
    """The record of an entry, without its weights."""
    text = source.read(ENTRY, MAX_TEXT_BYTES)
    received = hashlib.sha256(text).hexdigest()
    if sha256 not in (None, received):
        raise ZooError(
            f"{source}/{ENTRY}: expected the sha256 {sha256}, received {received}. Get the version "
            "that was pinned, or check this one and pin it."
        )
    return read(text, f"{source}/{ENTRY}")


def build_model(recipe: Recipe, members: Iterable[tuple[Recipe, int]]) -> Predictor:
    """A predictor with fresh weights.

    Args:
        recipe: that of the predictor.
        members: the recipe and the seed of each network.
    """
    from s2d_tf.zoo import networks

    built = [networks.build_network(*member) for member in members]
    return networks.build_predictor(recipe, built)


def _state_ranges(predictor, inputs, source):
    """Gives a predictor the ranges of its inputs that training has seen; all else must agree."""
    if inputs is None:
        return
    try:
        contract = predictor.contract.stated(inputs)
    except ValueError as error:
        raise ZooError(
            f"{source}: expected the inputs of its network, received others. {error}"
        ) from None
    if contract != predictor.contract:
        predictor.contract = contract


def _read_weights(source, item, network):
    """Arrays of an entry's file, or of the entry that it refers to: beside it, else in our zoo."""
    from s2d_tf.zoo import weights

    limit, place = weights.size_limit(network), source
    try:
        place = source.sibling(item.entry) if item.entry else source
        content = place.read(item.file, limit)
    except ZooError as error:
        if item.entry not in sources.pretrained_names():
            if not item.entry:
                raise
            raise ZooError(
                f"{source}: expected the weights of {item.entry}, to which it refers, received "
                f"none. {error}"
            ) from None
        place = sources.Folder(sources.pretrained_directory() / item.entry)
        content = place.read(item.file, limit)
    return weights.parse(content, network, f"{place}/{item.file}", item.sha256)
