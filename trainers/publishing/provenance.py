"""What an entry keeps of its run: how it was trained, how good it is, and golden predictions.

Golden predictions are a model's answers for fixed inputs: the same weights must answer the same
anywhere.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import pathlib
import statistics
from collections.abc import Iterable
from typing import Any

import numpy as np

import s2d_tf
from s2d_tf import data, evaluation, files, metrics, uncertainty, zoo
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.evaluation import evaluator, figures, names
from s2d_tf.models import Predictor
from s2d_tf.zoo.recipes import SECTIONS, Recipe
from s2d_tf.zoo.runs import MEMBER, METRICS, SUMMARY, TEACHER_LOGITS, Run, is_run

from ..studies import views

TABLE_METRICS = ("accuracy", "nll", "ece", "brier", "auroc", "aupr")
PICTURE = "uncertainty.png"
NUM_LISTED = 5
# Two machines order the sums of a network differently; uncertainties are in nats, up to ln K.
GOLDEN_TOLERANCE = 2e-3


class PublishError(UserError):
    """A run cannot be published as the requested entry."""


def check_run(run: Run, named: Recipe, other_numbers: bool = False) -> dict[str, tuple[Any, Any]]:
    """Rejects a run that is unfinished, of another recipe or seed, or of several splits.

    Returns:
        `{number: (value in the recipe, value of the run)}`, empty unless `other_numbers`.
    """
    PublishError.unless(
        run.finished,
        f"{run.directory}: expected a finished run, received one that is not. Run `s2d "
        f"train {run.recipe.name} --workdir={run.directory}` to continue it.",
    )
    members = run.members
    splits = {part.split for part in (run, *members)}
    PublishError.unless(
        len(splits) <= 1,
        f"{run.directory}: expected members of one split, received {sorted(splits)}. Train all "
        "of them with the same --split.",
    )
    seeds = [part.seed for part in members or [run]]
    PublishError.unless(
        seeds == list(range(len(seeds))),
        f"{run.directory}: expected seed 0, or 0, 1, 2, ... of an ensemble, received "
        f"{seeds}. Publish a run with these seeds.",
    )
    pairs = [(run, named), *((member, named.member_recipe) for member in members)]
    changes: dict[str, tuple[Any, Any]] = {}
    for part, expected in pairs:
        same_network = part is run and views.is_its_network(part.recipe, expected)
        PublishError.unless(
            part.recipe.name == expected.name or same_network,
            f"{part.directory}: expected a run of {expected.name}, received one of "
            f"{part.recipe.name}. Pass another --name.",
        )
        changes |= differences(part.recipe, expected)
    listed = "; ".join(f"{k} {a} -> {b}" for k, (a, b) in list(changes.items())[:5])
    PublishError.unless(
        other_numbers or not changes,
        f"{run.directory}: expected the numbers of the recipe of {named.name}, received "
        f"different ones ({listed}). Pass --other_numbers to publish it anyway.",
    )
    return changes


def differences(recipe: Recipe, named: Recipe) -> dict[str, tuple[Any, Any]]:
    """`{number: (value in the named recipe, value in the other)}`."""
    ours, theirs = (
        {f"{s}.{k}": v for s in SECTIONS for k, v in dataclasses.asdict(getattr(r, s)).items()}
        for r in (recipe, named)
    )
    found = {key: (theirs[key], ours[key]) for key in ours if ours[key] != theirs[key]}
    if recipe.draws == named.draws and recipe.num_members != named.num_members:
        found["num_members"] = (named.num_members, recipe.num_members)
    return found


def training_facts(
    run: Run, recipe: Recipe, changes: dict[str, tuple[Any, Any]], data_dir: PathLike | None
) -> dict[str, Any]:
    """Flat facts on the training behind an entry."""
    parts = run.members or [run]
    summaries = [files.read_json(part.directory / SUMMARY) for part in parts]
    try:
        fingerprint = data.fingerprint(
            *data.load_arrays(recipe.source_dataset, run.split, data_dir)
        )
    except data.MissingDataError:
        fingerprint = None
    found = {
        "seeds": [part.seed for part in parts],
        "split": run.split,
        "commands": commands(run, recipe, changes, summaries[0]),
        "trained_at": [facts["finished"] for facts in summaries],
        "training_seconds": round(sum(facts["training_seconds"] for facts in summaries), 1),
        "published_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "published_with": f"s2d_tf {s2d_tf.__version__}",
        "training_data": recipe.source_dataset,
        "training_data_fingerprint": fingerprint,
    }
    teachers = (run.directory / TEACHER_LOGITS).with_suffix(".json")
    if teachers.is_file():
        found["teachers_sha256"] = files.read_json(teachers)["teachers"]
    if changes:
        found["changed_numbers"] = [f"{key}={ours}" for key, (_, ours) in changes.items()]
    return found


def commands(
    run: Run, recipe: Recipe, changes: dict[str, tuple[Any, Any]], summary: dict[str, Any]
) -> list[str]:
    """The commands that reproduce these weights and their metrics.

    The run's `summary` has the one that trained it, if that was not `s2d train`.
    """
    flags = {"training.epochs": "--epochs", "num_members": "--members"}
    changed = [
        f"{flags[key]}={value}" if key in flags else f"--set '{key}={json.dumps(value)}'"
        for key, (_, value) in changes.items()
    ]
    if run.split != "train":
        changed.append(f"--split={run.split}")
    if summary.get("precision", "float32") != "float32":
        changed.append(f"--precision={summary['precision']}")
    made_by = summary.get("command", f"s2d train {run.recipe.name} --workdir=RUN")
    train = " ".join([made_by, *changed])
    return [train, "s2d evaluate RUN", f"s2d publish RUN --name={recipe.name}"]


def table_metrics(found: Iterable[str]) -> list[str]:
    """The keys of the metrics that tables show."""
    return [key for key in found if len(p := key.split("/")) > 1 and p[1] in TABLE_METRICS]


def spread(run: Run, recipe: Recipe, also: Iterable[PathLike] = ()) -> dict[str, dict]:
    """Mean and standard deviation of the metrics over runs that differ only in their seed.

    Returns:
        `{metric: {"mean", "stddev", "seeds"}}`, empty where there is only one run.
    """
    runs = {run.directory.resolve(): run}
    parent = run.directory.resolve().parent
    if run.directory.name.startswith(MEMBER) and is_run(parent):
        # Its ensemble may still be in training: only what has been evaluated counts.
        held = [d for d in Run.open(parent).member_directories if (d / METRICS).is_file()]
        runs |= {directory: Run.open(directory) for directory in held}
    runs |= {other.directory.resolve(): other for other in map(Run.open, also)}
    for other in runs.values():
        PublishError.unless(
            other.recipe == run.recipe and other.split == run.split,
            f"{other.directory}: expected a run of the same recipe as {run.directory}, "
            "received one of another. Leave it out.",
        )
    by_seed = {other.seed: other.directory / METRICS for other in runs.values()}
    found = {s: files.read_json(path) for s, path in sorted(by_seed.items()) if path.is_file()}
    if run.recipe.name != recipe.name or len(found) < 2:
        return {}
    return {
        key: {
            "mean": statistics.fmean(values),
            "stddev": statistics.stdev(values),
            "seeds": list(found),
        }
        for key in table_metrics(next(iter(found.values())))
        if len(values := [m[key] for m in found.values() if key in m]) == len(found)
    }


def strengths(
    run: Run, opened: zoo.TrainedModel, folder: pathlib.Path, data_dir: PathLike | None
) -> dict[str, Any]:
    """What a model is good and bad at on its test images, in words and a picture in the folder.

    Returns:
        Nothing without data; else
        lists of texts: "best_classes" and "worst_classes" with their accuracy, "confusions" with
        their counts, and "wrong_answers", the AUROC of detecting them by each uncertainty; and the
        name of the "picture" that was drawn: histograms of each uncertainty on right answers, on
        wrong ones, and on images of other datasets.
    """
    recipe = opened.recipe
    class_names = opened.predictor.class_names or ()
    try:
        scores = evaluator.score_datasets(
            opened.predictor,
            recipe.source_dataset,
            recipe.out_of_distribution,
            data_dir,
            cache_dir=evaluation.cache_directory(run),
            skip_missing=True,
        )
    except data.MissingDataError:
        return {}
    known, title = scores.known, names.dataset_title(scores.dataset)
    answers, errors = known.log_probs.argmax(axis=-1), known.errors
    counts = np.zeros([known.log_probs.shape[-1]] * 2, int)
    np.add.at(counts, (known.labels, answers), 1)
    accuracy = np.diag(counts) / np.maximum(counts.sum(axis=1), 1)
    classes = [f"{class_names[c]} ({accuracy[c]:.0%})" for c in np.argsort(accuracy, kind="stable")]
    np.fill_diagonal(counts, 0)
    pairs = np.argsort(-counts, axis=None, kind="stable")[:NUM_LISTED]
    sets = {
        f"{title}, {name} answers": {key: values[mask] for key, values in known.scores.items()}
        for name, mask in (("right", ~errors), ("wrong", errors))
        if mask.any()
    }
    sets |= {names.dataset_title(name): other.scores for name, other in scores.unknown.items()}
    figures.uncertainty_histograms({"": sets}, folder / PICTURE)
    return {
        "picture": PICTURE,
        "best_classes": classes[::-1][:NUM_LISTED],
        "worst_classes": classes[:NUM_LISTED],
        "confusions": [
            f"{class_names[row]} taken for {class_names[column]} ({counts[row, column]})"
            for row, column in zip(*np.unravel_index(pairs, counts.shape), strict=True)
            if counts[row, column]
        ],
        "wrong_answers": [
            f"{names.score_title(name)} {100 * metrics.auroc(values[~errors], values[errors]):.1f}"
            for name, values in known.scores.items()
            if errors.any() and not errors.all()
        ],
    }


def golden_images(image_shape: tuple[int, ...], count: int = 8) -> np.ndarray:
    """Triangle waves of several frequencies in whole numbers, so that no machine rounds them.

    Returns:
        uint8 `[count, height, width, channels]`.
    """
    height, width, channels = image_shape
    index, y, x, channel = np.ogrid[:count, :height, :width, :channels]
    phase = (3 + 5 * index) * y + (7 + 2 * index * (channel + 1)) * x + 37 * index + 61 * channel
    wave = phase % 512
    return np.minimum(wave, 511 - wave).astype(np.uint8)


def golden_answers(predictor: Predictor) -> dict[str, Any]:
    """What a predictor says about the fixed inputs, as JSON values."""
    found = _answers(predictor).items()
    return {name: np.round(value.astype(np.float64), 6).tolist() for name, value in found}


def golden_difference(predictor: Predictor, stored: dict[str, Any]) -> float:
    """The largest absolute difference between a predictor's answers and the stored ones.

    NaN where they are not finite; NumPy raises an error where they have other shapes.
    """
    pairs = [(value, stored[name]) for name, value in _answers(predictor).items()]
    return float(np.max([np.abs(np.subtract(*pair)).max() for pair in pairs]))


def _answers(predictor):
    """`predict_uncertainty` without a graph, which would take longer than these few inputs."""
    batch = golden_images(predictor.image_shape).astype(np.float32)
    answer = uncertainty.from_members(predictor.kind, predictor.member_logits(batch))
    return {name: answer[name].numpy() for name in uncertainty.NAMES}
