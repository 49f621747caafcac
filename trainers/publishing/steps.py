"""Fits a post-hoc step on a run or an entry and keeps it there."""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING

import s2d_tf
from s2d_tf import data, files, posthoc, zoo
from s2d_tf._types import Data, PathLike
from s2d_tf.data import location
from s2d_tf.evaluation import detectors, run_evaluation
from s2d_tf.evaluation.sources import open_source
from s2d_tf.posthoc import StepPredictor, chain, root
from s2d_tf.zoo import entries, sources
from s2d_tf.zoo import steps as steps_lib
from s2d_tf.zoo.layout import GOLDEN, PREDICTIONS, STEPS

from ..studies import results
from ..training.run_directory import lock
from . import golden
from .checks import PublishError
from .folder import complete

if TYPE_CHECKING:
    from s2d_tf.models import Predictor


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
    record, golden predictions, metrics and card are rewritten; a run's metrics are those of
    before until `s2d evaluate`.

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
    opened = zoo.open_model(where)
    name = steps_lib.file_name(len(chain(opened.predictor)), step)
    if opened.run is not None:
        with lock(opened.run):
            if len(steps_lib.of_run(opened.run.directory)) != len(chain(opened.predictor)):
                raise PublishError(
                    f"{where}: expected the steps that it was opened with, received others, "
                    "since another process has added one. Try again."
                )
            cache = run_evaluation.cache_directory(opened.run)
            fitted, facts = _fit(opened, step, split, data_dir, cache, batch_size, log)
            return posthoc.save(fitted, opened.run.directory / STEPS / name, facts)
    source = sources.find(where)
    if not isinstance(source, sources.Folder):
        raise PublishError(
            f"where: expected a run or an entry on this machine, received {where!r}. Copy the "
            "entry's folder first."
        )
    cache = location.cache_dir() / PREDICTIONS / opened.name
    fitted, facts = _fit(opened, step, split, data_dir, cache, batch_size, log)
    _add(opened, source.path, name, fitted, facts, data_dir, cache, log)
    return source.path / name


def write_steps(predictor: Predictor, folder: pathlib.Path) -> tuple[entries.StepFile, ...]:
    """Writes all steps of a predictor into an entry's folder; returns what the record lists."""
    return tuple(_write(own, folder, i) for i, own in enumerate(chain(predictor)))


def _fit(opened, step, split, data_dir, cache, batch_size, log):
    """The fitted step on the opened model, and its provenance."""
    facts = {
        "fitted_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "fitted_with": f"s2d_tf {s2d_tf.__version__}",
    }
    if not step.needs_data:
        return step.fit(opened.predictor), facts
    dataset = opened.recipe.source_dataset
    split = split or _default_split(opened, step)
    inputs, labels = data.load_arrays(dataset, split, data_dir)
    log(f"fitting {step!r} on {len(inputs):,} examples of {dataset}/{split}")
    read: Data = (inputs, labels)
    if detectors.has_features(opened.predictor):
        source = open_source(dataset, split=split, data_dir=data_dir)
        read, _ = detectors.features(root(opened.predictor), source, cache, batch_size)
    fitted = step.fit(opened.predictor, read, batch_size)
    fingerprint = data.fingerprint(inputs, labels)
    used = {"data": dataset, "split": split, "examples": len(inputs), "fingerprint": fingerprint}
    return fitted, used | facts


def _default_split(opened, step):
    if not step.held_out:
        return opened.split
    if opened.split == "train_without_validation":
        return "validation"
    raise PublishError(
        f"split: expected the name of a split for {type(step).__name__}, which needs examples that "
        f"the network was not trained on, received none: {opened.name} was trained on all of "
        f"{opened.split}. Pass --split=test, and measure the step on other data."
    )


def _add(opened, target, name, fitted, facts, data_dir, cache, log):
    """Writes an entry's folder again with one more step."""
    with files.folder_written_beside(target) as folder:
        shutil.copytree(target, folder, dirs_exist_ok=True)
        posthoc.save(fitted, folder / name, facts)
        fitted = posthoc.load(folder / name, fitted.model)
        stepped = dataclasses.replace(opened, predictor=fitted)
        log("evaluating the entry with its steps")
        found, _ = run_evaluation.evaluate_opened(stepped, data_dir, cache, log=log)
        files.write_text(folder / GOLDEN, json.dumps(golden.answers(stepped.predictor)) + "\n")
        record = dataclasses.replace(
            opened.record,
            golden=entries.GoldenFile(GOLDEN, files.sha256(folder / GOLDEN)),
            metrics=results.public(found),
            steps=(*opened.record.steps, _listed(fitted, folder / name)),
        )
        complete(folder, record)


def _write(predictor, folder, index):
    path = pathlib.Path(folder) / steps_lib.file_name(index, predictor.step)
    return _listed(predictor, posthoc.save(predictor, path))


def _listed(predictor: StepPredictor, path: pathlib.Path) -> entries.StepFile:
    fitted_on = steps_lib.fitted_on(predictor)
    return entries.StepFile(path.name, files.sha256(path), repr(predictor.step), fitted_on)
