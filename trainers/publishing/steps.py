"""Fits a post-hoc step on a run or an entry and keeps it there."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import pathlib
import shutil
from collections.abc import Callable

import s2d_tf
from s2d_tf import data, files, posthoc, zoo
from s2d_tf._types import PathLike
from s2d_tf.evaluation.run_evaluation import evaluate_opened
from s2d_tf.models import Predictor
from s2d_tf.posthoc import chain
from s2d_tf.zoo import entries, sources
from s2d_tf.zoo import steps as steps_lib
from s2d_tf.zoo.layout import GOLDEN, STEPS

from ..studies import results
from ..training import run_setup
from . import golden
from .card import complete
from .provenance import PublishError


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
        source = None if opened.run else sources.find(where)
        if source and not isinstance(source, sources.Folder):
            raise PublishError(
                f"where: expected a run or an entry on this machine, received {where!r}. Copy the "
                "entry's folder first."
            )
        fitted, facts = _fit(opened, step, split, data_dir, batch_size, log)
        name = steps_lib.file_name(len(chain(opened.predictor)), step)
        if source is None:
            return posthoc.save(fitted, opened.run.directory / STEPS / name, facts)
        folder = stack.enter_context(files.folder_written_beside(source.path))
        shutil.copytree(source.path, folder, dirs_exist_ok=True)
        posthoc.save(fitted, folder / name, facts)
        stepped = dataclasses.replace(
            opened, predictor=posthoc.load(folder / name, opened.predictor)
        )
        log("evaluating the entry with its steps")
        found, _ = evaluate_opened(stepped, data_dir, log=log)
        files.write_text(folder / GOLDEN, json.dumps(golden.answers(stepped.predictor)) + "\n")
        record = dataclasses.replace(
            opened.record,
            golden=entries.GoldenFile(GOLDEN, files.sha256(folder / GOLDEN)),
            metrics=results.public(found),
            steps=(*opened.record.steps, _listed(stepped.predictor, folder / name)),
        )
        complete(folder, record)
    return source.path / name


def write_steps(predictor: Predictor, folder: pathlib.Path) -> tuple[entries.StepFile, ...]:
    """Writes all steps of a predictor into an entry's folder; returns what the record lists."""
    named = [(own, steps_lib.file_name(i, own.step)) for i, own in enumerate(chain(predictor))]
    return tuple(_listed(own, posthoc.save(own, folder / name)) for own, name in named)


def _listed(predictor, path):
    fitted_on = steps_lib.fitted_on(predictor)
    return entries.StepFile(path.name, files.sha256(path), repr(predictor.step), fitted_on)


def _fit(opened, step, split, data_dir, batch_size, log):
    """The fitted step on the opened model, and its provenance."""
    facts = {
        "fitted_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "fitted_with": f"s2d_tf {s2d_tf.__version__}",
    }
    if not step.needs_data:
        return step.fit(opened.predictor), facts
    dataset = opened.recipe.source_dataset
    if split is None and step.held_out and opened.split != "train_without_validation":
        raise PublishError(
            f"split: expected the name of a split for {type(step).__name__}, which needs examples "
            f"that the network was not trained on, received none: {opened.name} was trained on all "
            f"of {opened.split}. Pass --split=test, and measure the step on other data."
        )
    split = split or ("validation" if step.held_out else opened.split)
    inputs, labels = data.load_arrays(dataset, split, data_dir)
    log(f"fitting {step!r} on {len(inputs):,} examples of {dataset}/{split}")
    fitted = step.fit(opened.predictor, (inputs, labels), batch_size)
    fingerprint = data.fingerprint(inputs, labels)
    used = {"data": dataset, "split": split, "examples": len(inputs), "fingerprint": fingerprint}
    return fitted, used | facts
