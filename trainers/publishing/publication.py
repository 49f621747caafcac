"""Makes an entry's folder; what was there under its name is replaced at the end."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

from s2d_tf import data, files, zoo
from s2d_tf._types import PathLike
from s2d_tf.evaluation import evaluator, run_evaluation, views
from s2d_tf.posthoc import root
from s2d_tf.zoo import entries, recipes
from s2d_tf.zoo.layout import GOLDEN, METRICS

from ..studies import results
from . import facts, golden, portrait
from .checks import PublishError, check_run
from .folder import complete
from .precision import weights_beside, write_weights
from .steps import write_steps


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
    `precision.TOLERANCE`, except for SWAG, whose deviations are too small for it, and for runs with
    fitted post-hoc steps, which belong to these very weights and are published with them.

    Args:
        directory: an evaluated run directory. A Monte Carlo entry is made from the run of its
            network, which is trained in the very same way.
        name: `architecture.method.dataset`.
        zoo_dir: folder of the entries; default: the zoo of this library.
        data_dir: TFDS folder, to evaluate the weights as they are published.
        also: run directories of the same recipe with other seeds, for the spread of the metrics.
            Other members of the ensemble that a run belongs to count by themselves.
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
    changes = check_run(run, named, other_numbers)
    recipe = views.drawn_as(run.recipe, named)
    # Steps were fitted on the run's own way to draw members.
    viewed = dataclasses.replace(run, recipe=recipe)
    opened = zoo.open_run(viewed, with_steps=recipe == run.recipe)
    head = opened.predictor
    if "steps" in opened.predictor.metadata and precision == "auto":
        log("float32 is kept: the run's steps were fitted on it")
        precision = "float32"
    metrics = _own_metrics(run, opened)
    spread = facts.spread(run, recipe, also)
    with files.folder_written_beside(target) as folder:
        readings = {k: v for k, v in (metrics or {}).items() if k == "run/test_readings"}
        listed, metrics = write_weights(opened, metrics, folder, target, data_dir, precision, log)
        metrics = {**metrics, **readings}
        shown = _portrait(run, opened, folder, data_dir)
        files.write_text(folder / GOLDEN, json.dumps(golden.answers(head)) + "\n")
        record = entries.Record(
            name=name,
            recipe=recipe,
            preprocessing=entries.preprocessing(recipe),
            class_names=opened.predictor.class_names,
            kind=head.kind,
            num_members=root(head).num_members,
            parameters=head.num_parameters,
            weights=listed,
            golden=entries.GoldenFile(GOLDEN, files.sha256(folder / GOLDEN)),
            metrics=results.public(metrics),
            spread=spread,
            provenance=facts.provenance(run, recipe, changes, data_dir) | shown,
            steps=write_steps(head, folder),
            inputs=head.contract.to_dict(),
        )
        complete(folder, record)
        _check_references(target, folder)
    log(f"published {target}")
    return target


def _own_metrics(run, opened):
    """The metrics of the run as it is, or None if it was not evaluated as this method."""
    path = run.directory / METRICS
    if run.recipe.name != opened.name:
        return None
    if not path.is_file():
        raise PublishError(
            f"{run.directory}: expected an evaluated run, received no metrics. Run `s2d "
            f"evaluate {run.directory}`."
        )
    metrics = files.read_json(path)
    if metrics.get("run/weights") != run_evaluation.weights_hash(opened.predictor):
        raise PublishError(
            f"{path}: expected metrics of these weights, received those of others. Run `s2d "
            f"evaluate {run.directory}` again."
        )
    evaluated = sum(key.startswith("run/step_") for key in metrics)
    if evaluated != len(opened.predictor.metadata.get("steps", ())):
        raise PublishError(
            f"{path}: expected metrics with these fitted steps, received those with others. "
            f"Run `s2d evaluate {run.directory}` again."
        )
    return metrics


def _portrait(run, opened, folder, data_dir):
    """Draws the picture of the card; returns what the card says beside it, nothing without data."""
    recipe = opened.recipe
    try:
        gathered = evaluator.gather(
            opened.predictor,
            recipe.source_dataset,
            recipe.out_of_distribution,
            data_dir,
            cache_dir=run_evaluation.cache_directory(run),
            skip_missing=True,
        )
    except data.MissingDataError:
        return {}
    portrait.draw(gathered, folder / portrait.PICTURE)
    return {"picture": portrait.PICTURE, **portrait.facts(gathered, opened.predictor.class_names)}


def _check_references(target, folder):
    """Rejects a replacement that would take away weights to which other entries refer."""
    written = {path.name: files.sha256(path) for path in folder.iterdir()}
    for name, item in weights_beside(target):
        if item.entry == target.name and written.get(item.file) != item.sha256:
            raise PublishError(
                f"{name}: expected an entry with weights of its own, received one that refers to "
                f"those that {target.name} has now. Remove that entry first and publish it again "
                "afterwards."
            )
