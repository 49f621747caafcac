"""Makes an entry's folder from a run, and adds fitted steps to runs and entries.

What was there under an entry's name is replaced at the end. Weights are stored in half precision if
no metric moves, and only once in a zoo.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
import shutil
from collections.abc import Callable, Iterable
from typing import Any

from s2d_tf import __version__, data, evaluation, files, posthoc, zoo
from s2d_tf._types import PathLike
from s2d_tf.evaluation import runs_and_entries
from s2d_tf.zoo import entries, loading, recipes, runs, sources, weights
from s2d_tf.zoo.entries import CARD, ENTRY, GOLDEN
from s2d_tf.zoo.runs import MEMBER, METRICS, STEPS

from ..studies import results, views
from ..training import run_setup
from . import card, provenance
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
    predictor.check_finite()
    if "steps" in (predictor.metadata or {}) and precision == "auto":
        log("float32 is kept: the run's steps were fitted on it")
        precision = "float32"
    metrics = _own_metrics(run, opened)
    evaluations = {k: v for k, v in (metrics or {}).items() if k == "run/test_readings"}
    spread = provenance.spread(run, recipe, also)
    with files.folder_written_beside(target) as folder:
        listed, metrics = _write_weights(opened, metrics, folder, target, data_dir, precision, log)
        facts = provenance.training_facts(run, recipe, changes, data_dir)
        record = entries.Record(
            name=name,
            recipe=recipe,
            preprocessing=entries.preprocessing(recipe),
            class_names=tuple(predictor.class_names or ()),
            kind=posthoc.root(predictor).kind,
            num_members=posthoc.root(predictor).num_members,
            parameters=predictor.num_parameters,
            weights=listed,
            golden=_write_golden(predictor, folder),
            metrics=results.public({**metrics, **evaluations}),
            spread=spread,
            provenance=facts | provenance.strengths(run, opened, folder, data_dir),
            steps=tuple(
                _listed(own, posthoc.save(own, folder / runs.step_file(i, own.step)))
                for i, own in enumerate(posthoc.chain(predictor))
            ),
            inputs=predictor.contract.to_dict(),
        )
        _complete(folder, record)
        # A replacement must not take away weights to which other entries refer.
        written = {path.name: files.sha256(path) for path in folder.iterdir()}
        for other, item in _weights_beside(target):
            PublishError.unless(
                item.entry != target.name or written.get(item.file) == item.sha256,
                f"{other}: expected an entry with weights of its own, received one that refers "
                f"to those that {target.name} has now. Remove that entry first and publish it "
                "again afterwards.",
            )
    log(f"published {target}")
    return target


def fit_step(
    where: PathLike,
    step: posthoc.Step,
    data_dir: str | None = None,
    split: str | None = None,
    batch_size: int = 256,
    log: Callable = print,
) -> pathlib.Path:
    """Fits one more step on a trained model and stores it with the model.

    `zoo.open_model` and `zoo.load` then return the predictor with all its steps. An entry's
    record, golden predictions, metrics and card are rewritten; a run keeps its old metrics until
    the next `s2d evaluate`.

    Args:
        where: a run directory, or the name or the folder of a zoo entry.
        step: what to fit.
        data_dir: TFDS folder.
        split: split of the model's dataset to fit on. Default: the one that the network was trained
            on; for steps that need other examples (calibration, sets, abstention) the validation
            split of a run that kept it out of training. A network that was trained on all training
            images has none: name one then, and do not trust the step's metrics on it.
        batch_size: images per forward pass.
        log: function that gets lines for a person.

    Returns:
        Path of the step's file.

    Raises:
        PublishError: the model is at an address, or no split is left to fit the step on.

    Example:

    >>> publishing.fit_step("run", posthoc.Energy(), log=lambda line: None).name
    '0_energy.safetensors'
    """
    with contextlib.ExitStack() as stack:
        if zoo.is_run(where):
            stack.enter_context(run_setup.lock(zoo.Run.open(where)))
        opened = zoo.open_model(where)
        source: Any = None if opened.run else sources.find(where)
        PublishError.unless(
            not source or isinstance(source, sources.Folder),
            f"where: expected a run or an entry on this machine, received {where!r}. Copy the "
            "entry's folder first.",
        )
        fitted, facts = _fit(opened, step, split, data_dir, batch_size, log)
        name = runs.step_file(len(posthoc.chain(opened.predictor)), step)
        if opened.run:
            return posthoc.save(fitted, opened.run.directory / STEPS / name, facts)
        folder = stack.enter_context(files.folder_written_beside(source.path))
        shutil.copytree(source.path, folder, dirs_exist_ok=True)
        posthoc.save(fitted, folder / name, facts)
        stepped = dataclasses.replace(
            opened, predictor=posthoc.load(folder / name, opened.predictor)
        )
        log("evaluating the entry with its steps")
        found, _ = runs_and_entries.evaluate_opened(stepped, data_dir, log=log)
        held: Any = opened.record
        record = dataclasses.replace(
            held,
            golden=_write_golden(stepped.predictor, folder),
            metrics=results.public(found),
            steps=(*held.steps, _listed(stepped.predictor, folder / name)),
        )
        _complete(folder, record)
    return source.path / name


def _complete(folder, record):
    """Writes record and card beside weights and golden predictions; then loads it as a user."""
    files.write_text(folder / ENTRY, record.to_json())
    files.write_text(folder / CARD, card.text(record))
    stored = files.read_json(folder / GOLDEN)
    difference = provenance.golden_difference(zoo.load(folder), stored)
    PublishError.unless(
        difference <= provenance.GOLDEN_TOLERANCE,
        f"{folder}: expected the predictions of {GOLDEN}, received ones that differ by up to "
        f"{difference:.2g}. Publish it again.",
    )


def _write_golden(predictor, folder):
    text = json.dumps(provenance.golden_answers(predictor))
    files.write_text(folder / GOLDEN, text + "\n")
    return entries.EntryFile(GOLDEN, files.sha256(folder / GOLDEN))


def _listed(predictor, path):
    about = repr(predictor.step), loading.fitted_on(predictor)
    return entries.StepFile(path.name, files.sha256(path), *about)


def _fit(opened, step, split, data_dir, batch_size, log):
    """The fitted step on the opened model, and its provenance."""
    facts = {
        "fitted_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "fitted_with": f"s2d_tf {__version__}",
    }
    if not step.needs_data:
        return step.fit(opened.predictor), facts
    dataset = opened.recipe.source_dataset
    PublishError.unless(
        split is not None or not step.held_out or opened.split == "train_without_validation",
        f"split: expected the name of a split for {type(step).__name__}, which needs examples "
        f"that the network was not trained on, received none: {opened.name} was trained on all "
        f"of {opened.split}. Pass --split=test, and measure the step on other data.",
    )
    split = split or ("validation" if step.held_out else opened.split)
    inputs, labels = data.load_arrays(dataset, split, data_dir)
    log(f"fitting {step!r} on {len(inputs):,} examples of {dataset}/{split}")
    fitted = step.fit(opened.predictor, (inputs, labels), batch_size)
    used = {"data": dataset, "split": split, "examples": len(inputs)}
    return fitted, used | {"fingerprint": data.fingerprint(inputs, labels)} | facts


def _own_metrics(run, opened):
    """The metrics of the run as it is, or None if it was not evaluated as this method."""
    path = run.directory / METRICS
    if run.recipe.name != opened.name:
        return None
    advice = f"Run `s2d evaluate {run.directory}`."
    PublishError.unless(
        path.is_file(),
        f"{run.directory}: expected an evaluated run, received no metrics. {advice}",
    )
    metrics = files.read_json(path)
    PublishError.unless(
        metrics.get("run/weights") == evaluation.weights_hash(opened.predictor),
        f"{path}: expected metrics of these weights, received those of other weights. {advice}",
    )
    evaluated = sum(key.startswith("run/step_") for key in metrics)
    PublishError.unless(
        evaluated == len(opened.predictor.metadata.get("steps", ())),
        f"{path}: expected metrics with these steps, received those of other steps. {advice}",
    )
    return metrics


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
        shown = [key for key in provenance.table_metrics(metrics) if key in halved]
        moved = {key: abs(halved[key] - metrics[key]) for key in shown}
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
        return runs_and_entries.evaluate_opened(opened, data_dir, log=log)[0]
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
            stem = f"{MEMBER}{index}" if opened.run.members else "model"
            name = f"{stem}.safetensors"
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
