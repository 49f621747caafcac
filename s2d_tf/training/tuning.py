"""Choosing a number of a recipe on the validation split, with the table behind the choice."""

import dataclasses
import pathlib

from s2d_tf import data, files, metrics, recipes
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
        Rows `{"value": ..., "accuracy": ..., "nll": ..., "ece": ...}`, the best NLL first.
    """
    directory = pathlib.Path(directory)
    settings = dataclasses.replace(settings or loop.Settings(), split="train_without_validation")
    # All of them before the first is trained: a mistake in the last value costs nothing, too.
    varied = [(value, recipes.override(recipe, [f"{key}={value}"])) for value in values]
    images, labels = data.load_arrays(recipe.source_dataset, "validation", settings.data_dir)
    rows = []
    for value, each in varied:
        run = loop.train(each, directory / f"{key}={value}".replace("/", "_"), seed, settings)
        probs = run.predictor().predict_uncertainty(images)["probs"]
        rows.append(
            {
                "value": value,
                "accuracy": metrics.accuracy(probs, labels),
                "nll": metrics.negative_log_likelihood(probs, labels),
                "ece": metrics.expected_calibration_error(probs, labels),
            }
        )
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


def table(key, rows):
    """The rows as Markdown."""
    lines = [f"| {key} | accuracy | NLL | %ECE |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {row['value']} | {100 * row['accuracy']:.1f} | {row['nll']:.3f} | "
        f"{100 * row['ece']:.2f} |"
        for row in rows
    ]
    return "\n".join(lines)
