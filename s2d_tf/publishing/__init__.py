"""From a finished run to an entry of the zoo: weights, golden predictions, record and card."""

import contextlib
import json
import pathlib
import shutil

from s2d_tf import data, files, recipes, zoo
from s2d_tf.evaluation import results, run_evaluation, views
from s2d_tf.publishing import card, facts
from s2d_tf.publishing.checks import PublishError, check_run
from s2d_tf.publishing.precision import choose
from s2d_tf.recipes import build
from s2d_tf.storage import Run, entries, golden

__all__ = ["PublishError", "publish"]


def publish(
    directory,
    name,
    zoo_dir=None,
    data_dir=None,
    also=(),
    precision="auto",
    other_numbers=False,
    log=print,
):
    """Makes `zoo_dir/name/` from a run; what was there under that name is replaced at the end.

    Which seed: a single model's entry is the run with seed 0, an ensemble's members have the seeds
    0, 1, 2, ... Half precision is kept where no figure of the tables moves by more than
    `precision.TOLERANCE`, except for SWAG, whose deviations are too small for it.

    Args:
        directory: an evaluated run directory. A Monte Carlo entry is made from the run of its
            network, which is trained in the very same way.
        name: `architecture.method.dataset`.
        zoo_dir: where entries lie; default: the zoo of this library.
        data_dir: TFDS folder, to evaluate the weights as they are published.
        also: run directories of the same recipe with other seeds, for the spread of the figures.
            Other members of the ensemble that a run belongs to count by themselves.
        precision: "auto" (the rule above), or "float32", which needs no data.
        other_numbers: publish although the run's numbers are not those of the named recipe; the
            card then lists them.
        log: function that gets lines for a person.

    Returns:
        Path of the entry's folder.
    """
    run, named = Run.open(directory), recipes.resolve(name)
    zoo_dir = pathlib.Path(zoo_dir) if zoo_dir else zoo.directory()
    changes = check_run(run, named, other_numbers)
    recipe = views.drawn_as(run.recipe, named)
    predictor = run.predictor()
    metrics = _own_metrics(run, recipe, predictor)
    if run.recipe.draws != recipe.draws:
        predictor = build.build_predictor(recipe, [predictor])
    spread = facts.spread(run, recipe, also)
    with _beside(zoo_dir, name) as folder:
        made = choose(run, recipe, predictor, metrics, folder, zoo_dir, data_dir, precision, log)
        answers = json.dumps(golden.answers(made.predictor))
        files.write_text(folder / entries.GOLDEN, answers + "\n")
        record = entries.Record(
            name=name,
            recipe=recipe,
            preprocessing=entries.preprocessing(recipe),
            class_names=data.info(recipe.source_dataset).class_names,
            kind=made.predictor.kind,
            num_members=made.predictor.num_members,
            parameters=made.predictor.num_parameters,
            weights=made.weights,
            golden={"file": entries.GOLDEN, "sha256": files.sha256(folder / entries.GOLDEN)},
            metrics=results.public(made.metrics),
            spread=spread,
            provenance=facts.provenance(run, recipe, changes, data_dir),
        )
        files.write_text(folder / entries.ENTRY, record.to_json())
        files.write_text(folder / entries.CARD, card.text(record))
        _verify(folder)
    log(f"published {zoo_dir / name}")
    return zoo_dir / name


def _own_metrics(run, recipe, predictor):
    """The metrics of the run as it is, or None where it was not evaluated as this method."""
    path = run.directory / results.METRICS
    if run.recipe.name != recipe.name:
        return None
    if not path.is_file():
        raise PublishError(f"{run.directory} is not evaluated: `s2d evaluate {run.directory}`.")
    metrics = files.read_json(path)
    if metrics.get("run/weights") != run_evaluation.weights_hash(predictor):
        raise PublishError(
            f"{path} was made from other weights: `s2d evaluate {run.directory}` again."
        )
    return metrics


@contextlib.contextmanager
def _beside(zoo_dir, name):
    """A folder to fill, which takes the entry's place when all went well."""
    zoo_dir.mkdir(parents=True, exist_ok=True)
    folder, target = zoo_dir / f".partial-{name}", zoo_dir / name
    old = zoo_dir / f".old-{name}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
        _check_references(zoo_dir, name, folder)
        for path in folder.iterdir():
            files.flush(path)
        files.flush(folder)
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        folder.rename(target)
        files.flush(zoo_dir)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _check_references(zoo_dir, name, folder):
    """Refuses to take away weights that other entries refer to."""
    for path in sorted(zoo_dir.glob(f"[!.]*/{entries.ENTRY}")):
        if path.parent.name == name:
            continue
        for item in entries.read(path.read_bytes(), path).weights:
            if item.entry != name:
                continue
            held = folder / item.file
            if not held.is_file() or files.sha256(held) != item.sha256:
                raise PublishError(
                    f"{path.parent.name} refers to the weights that {name} has now: remove that "
                    "entry first and publish it again afterwards."
                )


def _verify(folder):
    """Loads what was written as a user would, and compares its answers."""
    stored = entries.read_json((folder / entries.GOLDEN).read_bytes(), folder / entries.GOLDEN)
    difference = golden.difference(zoo.load(folder), stored)
    if difference > golden.TOLERANCE:
        raise PublishError(f"{folder} answers otherwise than when it was made ({difference:.2g}).")
