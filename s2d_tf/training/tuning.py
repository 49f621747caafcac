"""Choosing a number of a recipe on the validation split, with the table behind the choice."""

import dataclasses
import pathlib

from s2d_tf import data, files, metrics, recipes, uncertainty
from s2d_tf.training import loop

RECORD = "tuning.json"


def tune(recipe, directory, key, values, seed=0, settings=None):
    """Trains a recipe once for each value, without the validation images, and validates.

    Args:
        recipe: the `recipes.Recipe` to vary.
        directory: one run directory for each value, and `tuning.json` with the recipe and rows.
        key: the number to vary, for example "model.temperature".
        values: its values, as JSON text or plain words.
        seed: the seed of every run.
        settings: `loop.Settings`; its split is set here.

    Returns:
        Rows `{"value": ..., "accuracy": ..., "nll": ..., "ece": ...}`, the best NLL first; those
        of a Gaussian student have "mean_accuracy" and so on as well, see `Predictor.readings`.
    """
    directory = pathlib.Path(directory)
    settings = dataclasses.replace(settings or loop.Settings(), split="train_without_validation")
    # All of them before the first is trained: a mistake in the last value costs nothing, too.
    varied = [(value, recipes.override(recipe, [f"{key}={value}"])) for value in values]
    images, labels = data.load_arrays(recipe.source_dataset, "validation", settings.data_dir)
    rows = []
    for value, each in varied:
        run = loop.train(each, directory / f"{key}={value}".replace("/", "_"), seed, settings)
        predictor = run.predictor()
        row = {"value": value, **_measured(predictor.predict_uncertainty(images)["probs"], labels)}
        for reading, members in predictor.readings.items():
            stack = members(predictor.predict_raw(images))
            probs = uncertainty.from_members(predictor.kind, stack)["probs"].numpy()
            row |= {f"{reading}_{k}": v for k, v in _measured(probs, labels).items()}
        rows.append(row)
    rows.sort(key=lambda row: row["nll"])
    files.write_json(
        directory / RECORD,
        {
            "name": recipe.name,
            "seed": seed,
            "key": key,
            "split": "validation",
            "rows": rows,
            "recipe": recipe.to_dict(),
        },
    )
    return rows


def _measured(probs, labels):
    return {
        "accuracy": metrics.accuracy(probs, labels),
        "nll": metrics.negative_log_likelihood(probs, labels),
        "ece": metrics.expected_calibration_error(probs, labels),
    }


def table(key, rows):
    """The rows as Markdown."""
    readings = sorted({k.removesuffix("nll") for row in rows for k in row if k.endswith("nll")})
    titles = [
        f"{title} by {reading.rstrip('_')}" if reading else title
        for reading in readings
        for title in ("accuracy", "NLL", "%ECE")
    ]
    lines = [f"| {' | '.join([key, *titles])} |", "| --- " * (len(titles) + 1) + "|"]
    for row in rows:
        cells = [str(row["value"])]
        for reading in readings:
            for name, scale, decimals in (("accuracy", 100, 1), ("nll", 1, 3), ("ece", 100, 2)):
                value = row.get(f"{reading}{name}")
                cells.append("" if value is None else f"{scale * value:.{decimals}f}")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
