"""What an entry says about where it comes from, and how much its seeds differ."""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import s2d_tf
from s2d_tf import data, files
from s2d_tf._types import PathLike
from s2d_tf.zoo import Run, is_run
from s2d_tf.zoo.layout import MEMBER, METRICS, SUMMARY, TEACHER_LOGITS

from .checks import PublishError
from .precision import table_metrics

if TYPE_CHECKING:
    from s2d_tf.zoo.recipes import Recipe


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
        if other.recipe != run.recipe or other.split != run.split:
            raise PublishError(
                f"{other.directory}: expected a run of the same recipe as {run.directory}, "
                "received one of another. Leave it out."
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


def provenance(
    run: Run, recipe: Recipe, changes: dict[str, tuple[Any, Any]], data_dir: PathLike | None
) -> dict[str, Any]:
    """Flat facts on the training behind an entry."""
    parts = run.members or [run]
    summaries = [files.read_json(part.directory / SUMMARY) for part in parts]
    found = {
        "seeds": [part.seed for part in parts],
        "split": run.split,
        "commands": commands(run, recipe, changes, summaries[0]),
        "trained_at": [facts["finished"] for facts in summaries],
        "training_seconds": round(sum(facts["training_seconds"] for facts in summaries), 1),
        "published_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "published_with": f"s2d_tf {s2d_tf.__version__}",
        "training_data": recipe.source_dataset,
        "training_data_fingerprint": _fingerprint(recipe.source_dataset, run.split, data_dir),
    }
    teachers = (run.directory / TEACHER_LOGITS).with_suffix(".json")
    if teachers.is_file():
        found["teachers_sha256"] = files.read_json(teachers)["teachers"]
    if "validated_on" in summaries[0]:
        found["validated_on"] = summaries[0]["validated_on"]
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


def _fingerprint(dataset, split, data_dir):
    try:
        return data.fingerprint(*data.load_arrays(dataset, split, data_dir))
    except data.MissingDataError:
        return None
