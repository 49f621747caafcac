"""One way to open a trained model, wherever it is, with its fitted post-hoc steps."""

from __future__ import annotations

import dataclasses
import json
import shlex

from s2d_tf import files, posthoc
from s2d_tf._types import PathLike
from s2d_tf.models import Predictor
from s2d_tf.zoo import entries, networks, recipes, sources, weights
from s2d_tf.zoo.entries import ENTRY, Record, StepFile, ZooError
from s2d_tf.zoo.runs import STEPS, Run, RunError

MAX_STEP_BYTES = 2**29
"""Of all steps of one model together."""


@dataclasses.dataclass(frozen=True)
class TrainedModel:
    """A trained model and what is known about it.

    Attributes:
        predictor: the `models.Predictor`. Its `class_names` are those of its data, and its
            `metadata`, which an export keeps, is the entry's record, or the run's recipe, seed,
            split and fitted steps.
        recipe: the resolved recipe.
        seeds: of the training runs, one for each network.
        split: what it was trained on.
        run: the run, if it is one.
        record: the entry's record, if it is one.

    Example:

    >>> model = zoo.open_model("wrn_10_2_s2.s2d.digits")
    >>> model.split, model.seeds
    ('train', (0,))
    """

    predictor: Predictor
    recipe: recipes.Recipe
    seeds: tuple[int, ...]
    split: str
    run: Run | None = None
    record: Record | None = None

    @property
    def name(self) -> str:
        """`architecture.method.dataset`."""
        return self.recipe.name


def build(name: str, seed: int = 0) -> Predictor:
    """The untrained network of an entry (of a deep ensemble: an ensemble of them).

    Args:
        name: `architecture.method.dataset`.
        seed: of the weights; the members of an ensemble have this and the following ones.

    Example:

    >>> zoo.build("wrn_10_2_s2.s2d.digits").num_classes
    8
    """
    recipe = recipes.resolve(name)
    count = recipe.num_members if recipe.draws == "ensemble" else 1
    built = [networks.build_network(recipe, seed + i) for i in range(count)]
    return networks.build_predictor(recipe, built)


def load(where: PathLike, sha256: str | None = None) -> Predictor:
    """Loads a trained predictor; see `zoo.open_model` for all that is known about it.

    Args:
        where: the name of an entry; the path or the http(s) address of an entry's folder, or
            `hf://user/repository[@revision][/folder]` (needs `s2d_tf[hf]`); or a run directory. A
            folder that has the name of an entry is meant by a `pathlib.Path` or `./NAME`.
        sha256: expected hash of the `entry.json`, to pin one version of an entry.

    Returns:
        A `models.Predictor`; it has the `class_names`, and the entry's record as `metadata`, which
        an export keeps.

    Raises:
        ZooError: there are no such weights, or their files are damaged.
        RunError: a run is not finished or damaged.
        RecipeError: the name is unknown; the message lists the closest ones.

    Example:

    >>> model = zoo.load("wrn_10_2_s2.s2d.digits")
    >>> model.num_members, len(model.class_names)
    (1, 8)
    """
    return open_model(where, sha256).predictor


def open_model(where: PathLike, sha256: str | None = None) -> TrainedModel:
    """Opens a trained model.

    The network is built by this library and the arrays are checked before they are used, so files
    can be wrong but do no harm.

    Args:
        where, sha256: as for `zoo.load`.

    Example:

    >>> model = zoo.open_model("wrn_10_2_s2.s2d.digits")
    >>> model.recipe.method, model.predictor.num_members
    ('s2d', 1)
    """
    source = sources.find(where)
    if not isinstance(source, Run):
        return _open_entry(source, sha256)
    RunError.unless(
        sha256 is None,
        f"sha256: expected None for the run directory {where}, received {sha256!r}. Leave it "
        "out; it is for entries.",
    )
    return open_run(source)


def open_run(run: Run, with_steps: bool = True) -> TrainedModel:
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
    if not run.finished:
        workdir = shlex.quote(str(run.directory))
        raise RunError(
            f"{run.directory}: expected a finished run, received one that is not finished. "
            f"`s2d train {run.recipe.train_arguments} --workdir={workdir} --seed={run.seed}`, with "
            "all other flags that it had, continues it."
        )
    parts = run.members or [run]
    built = [networks.build_network(part.recipe, part.seed) for part in parts]
    predictor = networks.build_predictor(run.recipe, built)
    for network, part in zip(predictor.networks, parts, strict=True):
        weights.load(network, part.weights())
    metadata = {
        "name": run.recipe.name,
        "recipe": run.recipe.to_dict(),
        "seed": run.seed,
        "split": run.split,
    }
    if with_steps and run.steps:
        predictor = _with_steps(predictor, sources.Folder(run.directory / STEPS), run.steps)
        metadata["steps"] = summaries(predictor)
    predictor.class_names, predictor.metadata = run.recipe.class_names, metadata
    seeds = tuple(part.seed for part in parts)
    return TrainedModel(predictor, run.recipe, seeds, run.split, run=run)


def _open_entry(source, sha256):
    text, where = source.read(ENTRY, entries.MAX_TEXT_BYTES), f"{source}/{ENTRY}"
    files.check_sha256(text, sha256, where, ZooError)
    record = entries.read(text, where)
    seeds = tuple(item.seed for item in record.weights)
    built = [networks.build_network(record.recipe, seed) for seed in seeds]
    predictor = networks.build_predictor(record.recipe, built)
    for network, item in zip(predictor.networks, record.weights, strict=True):
        _load_weights(network, source, item)
    inputs = predictor.contract.to_dict()
    held = predictor.kind, predictor.num_members, inputs
    stated = record.kind, record.num_members, record.inputs or inputs
    ZooError.unless(
        held == stated,
        f"{source}: expected the members and inputs {held!r:.200}, received {stated!r:.200}. "
        "Get the entry again.",
    )
    if record.steps:
        predictor = _with_steps(predictor, source, record.steps)
    predictor.class_names = record.class_names
    predictor.metadata = {"name": record.name, "entry": json.loads(text)}
    split = record.provenance.get("split", "train")
    return TrainedModel(predictor, record.recipe, seeds, split, record=record)


def _load_weights(network, source, item):
    """Gives a network an entry's file, or that of the entry that it refers to: beside it, else in
    our zoo.
    """
    limit = weights.size_limit(network)
    try:
        content = source.read(item.file, limit, item.entry)
    except ZooError:
        if item.entry not in entries.names(pretrained=True):
            raise
        source = sources.Folder(entries.directory() / item.entry)
        content = source.read(item.file, limit)
    weights.assign(network, content, f"{source}/{item.file}", item.sha256)


def _with_steps(predictor, source, items):
    """The predictor with the steps in files of a source: names, or an entry's facts to check."""
    left = MAX_STEP_BYTES
    for item in items:
        stated = item if isinstance(item, StepFile) else None
        name = stated.file if stated else item
        where, content = f"{source}/{name}", source.read(name, left)
        left -= len(content)
        files.check_sha256(content, stated.sha256 if stated else None, where, ZooError)
        predictor = posthoc.parse(content, predictor, where)
        held = repr(predictor.step), fitted_on(predictor)
        if stated and held != (stated.step, stated.fitted_on):
            raise ZooError(
                f"{where}: expected {(stated.step, stated.fitted_on)!r:.200}, received "
                f"{held!r:.200}. Get the entry again."
            )
    return predictor


def fitted_on(predictor: posthoc.StepPredictor) -> str:
    """`dataset/split` of the last step's fit; empty where nothing was fitted."""
    facts = predictor.provenance
    return f"{facts['data']}/{facts['split']}" if {"data", "split"} <= facts.keys() else ""


def summaries(predictor: Predictor) -> list[dict]:
    """All steps of a predictor with their provenance, as JSON values."""
    return [
        {**own.provenance, "step": repr(own.step), "fitted_on": fitted_on(own)}
        for own in posthoc.chain(predictor)
    ]
