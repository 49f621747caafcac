"""Makes an entry's folder; what was there under its name is replaced at the end.

Weights are stored in half precision if no metric moves, and only once in a zoo.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from s2d_tf import data, evaluation, files, zoo
from s2d_tf._types import PathLike
from s2d_tf.evaluation import evaluator, run_evaluation, views
from s2d_tf.posthoc import root
from s2d_tf.zoo import entries, recipes, weights
from s2d_tf.zoo.layout import ENTRY, GOLDEN, METRICS, weights_file

from ..studies import results
from . import card, golden, provenance, steps
from .provenance import PublishError

# Half of the last digit that the paper's tables print (0.1 percent; NLL a thousandth).
TOLERANCE = 5e-4
ROUNDING = 1e-9  # 0.7535 - 0.753 is above 5e-4 in floating point.


def publish(
    directory: PathLike,
    name: str,
    zoo_dir: PathLike | None = None,
    data_dir: PathLike | None = None,
    also: Iterable[PathLike] = (),
    precision: str = "auto",
    other_numbers: bool = False,
    log: Callable[[str], Any] = print,
) -> pathlib.Path:
    """Makes `zoo_dir/name/` from a run.

    Which seed: a single model's entry is the run with seed 0, an ensemble's members have the seeds
    0, 1, 2, ... Weights are stored in float16 if no metric of the tables moves by more than
    `TOLERANCE`, except for SWAG, whose deviations are too small for it, and for runs with fitted
    post-hoc steps, which belong to these very weights and are published with them.

    Args:
        directory: an evaluated run directory. A Monte Carlo entry is made from the run of its
            network, which is trained in the same way.
        name: `architecture.method.dataset`.
        zoo_dir: folder of the entries; default: the zoo of this library.
        data_dir: TFDS folder, to evaluate the weights as they are published.
        also: run directories of the same recipe with other seeds, for the spread of the metrics.
            Other members of the ensemble that a run belongs to are counted automatically.
        precision: "auto" (the rule above), or "float32", which needs no data.
        other_numbers: publish although the run's numbers are not those of the named recipe; the
            card then lists them.
        log: function that gets lines for a person.

    Returns:
        Path of the entry's folder.

    Raises:
        PublishError: the run is not finished or evaluated, or is not one of the named recipe.

    Example:

    >>> name, quiet = "wrn_10_2_s2.s2d.digits", lambda line: None
    >>> found = evaluation.evaluate_run("run", log=quiet)
    >>> folder = publishing.publish("run", name, zoo_dir="zoo", precision="float32", log=quiet)
    >>> zoo.load(folder).num_classes
    8
    """
    run, named = zoo.Run.open(directory), recipes.resolve(name)
    target = (pathlib.Path(zoo_dir) if zoo_dir else zoo.directory()) / name
    changes = provenance.check_run(run, named, other_numbers)
    recipe = views.drawn_as(run.recipe, named)
    # Steps were fitted on the run's own way to draw members.
    opened = zoo.open_run(dataclasses.replace(run, recipe=recipe), with_steps=recipe == run.recipe)
    predictor = opened.predictor
    if "steps" in predictor.metadata and precision == "auto":
        log("float32 is kept: the run's steps were fitted on it")
        precision = "float32"
    metrics = _own_metrics(run, opened)
    evaluations = {k: v for k, v in (metrics or {}).items() if k == "run/test_readings"}
    spread = provenance.spread(run, recipe, also)
    with files.folder_written_beside(target) as folder:
        listed, metrics = _write_weights(opened, metrics, folder, target, data_dir, precision, log)
        facts = provenance.training_facts(run, recipe, changes, data_dir)
        files.write_text(folder / GOLDEN, json.dumps(golden.answers(predictor)) + "\n")
        record = entries.Record(
            name=name,
            recipe=recipe,
            preprocessing=entries.preprocessing(recipe),
            class_names=predictor.class_names,
            kind=predictor.kind,
            num_members=root(predictor).num_members,
            parameters=predictor.num_parameters,
            weights=listed,
            golden=entries.GoldenFile(GOLDEN, files.sha256(folder / GOLDEN)),
            metrics=results.public({**metrics, **evaluations}),
            spread=spread,
            provenance=facts | _strengths(run, opened, folder, data_dir),
            steps=steps.write_steps(predictor, folder),
            inputs=predictor.contract.to_dict(),
        )
        card.complete(folder, record)
        # A replacement must not take away weights to which other entries refer.
        written = {path.name: files.sha256(path) for path in folder.iterdir()}
        for other, item in _weights_beside(target):
            if item.entry == target.name and written.get(item.file) != item.sha256:
                raise PublishError(
                    f"{other}: expected an entry with weights of its own, received one that refers "
                    f"to those that {target.name} has now. Remove that entry first and publish it "
                    "again afterwards."
                )
    log(f"published {target}")
    return target


def _own_metrics(run, opened):
    """The metrics of the run as it is, or None if it was not evaluated as this method."""
    path = run.directory / METRICS
    if run.recipe.name != opened.name:
        return None
    advice = f"Run `s2d evaluate {run.directory}`."
    if not path.is_file():
        raise PublishError(
            f"{run.directory}: expected an evaluated run, received no metrics. {advice}"
        )
    metrics = files.read_json(path)
    if metrics.get("run/weights") != evaluation.weights_hash(opened.predictor):
        raise PublishError(
            f"{path}: expected metrics of these weights, received those of others. {advice}"
        )
    evaluated = sum(key.startswith("run/step_") for key in metrics)
    if evaluated != len(opened.predictor.metadata.get("steps", ())):
        raise PublishError(
            f"{path}: expected metrics with these fitted steps, received those with others. "
            f"{advice}"
        )
    return metrics


def _strengths(run, opened, folder, data_dir):
    """What the card says of the model's answers, with a picture; nothing without data."""
    recipe = opened.recipe
    try:
        scores = evaluator.score_datasets(
            opened.predictor,
            recipe.source_dataset,
            recipe.out_of_distribution,
            data_dir,
            cache_dir=run_evaluation.cache_directory(run),
            skip_missing=True,
        )
    except data.MissingDataError:
        return {}
    return provenance.strengths(scores, opened.predictor.class_names, folder / provenance.PICTURE)


def _write_weights(opened, metrics, folder, target, data_dir, precision, log):
    """Writes the weights, in half precision if the metrics allow it; returns files and metrics."""
    if metrics is None:
        log("evaluating the run's own weights")
        metrics = evaluate(opened, data_dir, log)
    # A deviation of 1e-5 has one or two digits in half precision.
    if precision == "auto" and opened.recipe.draws != "swag":
        listed = _write(opened, folder, target, "float16")
        log("evaluating the weights in half precision")
        halved = evaluate(opened, data_dir, log)
        shown = provenance.table_metrics(metrics)
        moved = {k: abs(halved[k] - metrics[k]) for k in shown if k in halved}
        worst = max(moved, key=lambda name: moved[name], default=None)
        if worst is None or moved[worst] <= TOLERANCE + ROUNDING:
            return listed, halved
        log(f"float32 is kept: in half precision {worst} moves by {moved[worst]:.2g}")
        for item in listed:
            (folder / item.file).unlink(missing_ok=True)
    return _write(opened, folder, target, "float32"), metrics


def evaluate(
    opened: zoo.TrainedModel, data_dir: PathLike | None, log: Callable[[str], Any]
) -> dict[str, Any]:
    """All metrics of an opened run, as `s2d evaluate` computes them."""
    try:
        return run_evaluation.evaluate_opened(opened, data_dir, log=log)[0]
    except data.MissingDataError as error:
        raise PublishError(
            f"{error} To publish without the data, pass --precision=float32, for an evaluated run."
        ) from None


def _write(opened, folder, target, precision):
    """Writes a weights file for each network, unless another entry has it; then loads it."""
    parts, listed = opened.run.members or [opened.run], []
    for index, (part, network) in enumerate(zip(parts, opened.predictor.networks, strict=True)):
        source = files.sha256(part.weights())
        weights.load(network, part.weights(), source)
        same = (
            dataclasses.replace(item, entry=name)
            for name, item in _weights_beside(target)
            if (item.entry, item.source, item.precision) == (None, source, precision)
        )
        item = next(same, None)
        if item is None:
            name = weights_file(index if opened.run.members else None)
            weights.save(network, folder / name, half=precision == "float16")
            digest = files.sha256(folder / name)
            item = entries.WeightsFile(name, digest, precision, part.seed, source, entry=None)
        place = target.parent / item.entry if item.entry else folder
        weights.load(network, place / item.file, item.sha256)
        listed.append(item)
    return tuple(listed)


def _weights_beside(target):
    """The name and each `entries.WeightsFile` of the other entries in the same zoo."""
    for path in sorted(target.parent.glob(f"[!.]*/{ENTRY}")):
        if path.parent != target:
            record = entries.read(path.read_bytes(), path)
            yield from ((path.parent.name, item) for item in record.weights)
