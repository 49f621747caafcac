"""Choosing a value of a recipe on the validation split, with the table behind the choice."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from s2d_tf import files, metrics
from s2d_tf._types import PathLike
from s2d_tf.evaluation import tables
from s2d_tf.zoo.recipes import Recipe

from . import loop, run_setup, strategies

RECORD = "tuning.json"
COLUMNS = (
    ("accuracy", "accuracy", 100, ".1f"),
    ("nll", "NLL", 1, ".3f"),
    ("ece", "%ECE", 100, ".2f"),
)


def tune(
    recipe: Recipe,
    directory: PathLike,
    key: str,
    values: Sequence[str],
    seed: int = 0,
    settings: run_setup.Settings | None = None,
) -> list[dict[str, Any]]:
    """Trains a recipe once for each value, without the validation images, and validates.

    Args:
        recipe: the `recipes.Recipe` to vary.
        directory: one run directory for each value, and `tuning.json` with the recipe and rows.
        key: the value to vary, for example "model.temperature".
        values: its values, as JSON text or plain words.
        seed: the seed of every run.
        settings: `run_setup.Settings`; its split is set here.

    Returns:
        Rows, the best NLL first: `{"value", "accuracy", "nll", "ece", "examples",
        "accuracy_interval", "nll_interval", "nll_minus_best"}`. Intervals are `[low, high]` at 95%
        over the validation images, Wilson's for the accuracy and Student's for the NLL;
        `nll_minus_best` is `[estimate, low, high]` of the paired difference to the first row.
    """
    directory = pathlib.Path(directory)
    settings = dataclasses.replace(
        settings or run_setup.Settings(), split="train_without_validation"
    )
    # All of them before the first is trained, so that a mistake in the last value costs nothing.
    varied = [(value, run_setup.override(recipe, [f"{key}={value}"])) for value in values]
    place = settings.data_dir, settings.data
    images, labels = recipe.load_arrays("validation", *place)
    rows: list[dict[str, Any]] = []
    losses: dict[Any, np.ndarray] = {}
    for value, each in varied:
        run = loop.train(each, directory / f"{key}={value}".replace("/", "_"), seed, settings)
        probs = run.predictor().predict_uncertainty(images)["probs"]
        with np.errstate(divide="ignore"):
            losses[value] = -np.log(np.float64(probs[np.arange(len(labels)), labels]))
        correct = int((probs.argmax(axis=-1) == labels).sum())
        wilson = stats.binomtest(correct, len(labels)).proportion_ci(0.95, "wilson")
        rows.append(
            {
                "value": value,
                "accuracy": metrics.accuracy(probs, labels),
                "nll": metrics.negative_log_likelihood(probs, labels),
                "ece": metrics.expected_calibration_error(probs, labels),
                "examples": len(labels),
                "accuracy_interval": [wilson.low, wilson.high],
                "nll_interval": list(metrics.mean_interval(losses[value])[1:]),
            }
        )
    rows.sort(key=lambda row: row["nll"])
    for row in rows:
        differences = losses[row["value"]] - losses[rows[0]["value"]]
        row["nll_minus_best"] = list(metrics.mean_interval(differences))
    files.write_json(
        directory / RECORD,
        {
            "name": recipe.name,
            "seed": seed,
            "key": key,
            "split": "validation",
            "precision": strategies.choose_precision(settings.precision),
            "rows": rows,
            "recipe": recipe.to_dict(),
        },
    )
    return rows


def table(key: str, rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown; older sweeps have no intervals, or metrics of the mean as well."""
    prefixes = ("", *(name.removesuffix("nll") for name in rows[0] if name.endswith("_nll")))
    head, cells = [key], [[f"{row['value']}"] for row in rows]
    for prefix in prefixes:
        by = f" by {prefix.rstrip('_')}" if prefix else ""
        for name, title, scale, form in COLUMNS:
            interval = f"{prefix}{name}_interval"
            head.append(f"{title}{by} [95%]" if interval in rows[0] else f"{title}{by}")
            for row, own in zip(rows, cells, strict=True):
                ends = f" {_ends(row[interval], form, scale)}" if interval in row else ""
                own.append(f"{scale * row[f'{prefix}{name}']:{form}}{ends}")
    note = ""
    if "examples" in rows[0]:
        head.append("NLL minus the best's [95%]")
        for row, own in zip(rows, cells, strict=True):
            ends = _ends(row["nll_minus_best"][1:], "+.3f")
            own.append(
                f"{row['nll'] - rows[0]['nll']:+.3f} {ends}" if row is not rows[0] else "the best"
            )
        note = (
            f"\n\n{rows[0]['examples']:,} validation examples, one seed. Intervals are over the "
            "examples; where that of a difference holds 0, the order may be chance."
        )
    made = tables.make("", head, [cells], stub=len(head))
    return f"{tables.render(made, 'markdown').strip()}{note}"


def _ends(ends, form, scale=1):
    return "[?]" if None in ends else f"[{scale * ends[0]:{form}}, {scale * ends[1]:{form}}]"
