"""A first look: a plain classifier and its S2D twin on embedded images."""

from __future__ import annotations

import pathlib
import textwrap
import time
from collections.abc import Sequence

import numpy as np

from s2d_tf import evaluation, files
from s2d_tf._types import PathLike
from s2d_tf.evaluation import figures, tables
from s2d_tf.evaluation.names import dataset_title
from s2d_tf.metrics.statistics import mean_interval
from s2d_tf.zoo import recipes
from s2d_tf.zoo.runs import METRICS

from .. import training

ARCHITECTURE = "wrn_10_2_s2"
DATASET = "digits"
METHODS = ("individual", "s2d")
WRITTEN = ("table.md", "table.csv", "reliability.png", "uncertainty.png")


def run(out: PathLike, seeds: int = 1, verbose: int | None = None) -> str:
    """Trains, evaluates and explains both models.

    Args:
        out: folder for the runs, the table and the plots.
        seeds: how many pairs to train; above 1 the table shows mean and spread.
        verbose: Keras' verbosity; `None` shows a bar for each epoch on a terminal.

    Returns:
        The text for a person.
    """
    began, out = time.monotonic(), pathlib.Path(out)
    chosen = [recipes.resolve(f"{ARCHITECTURE}.{method}.{DATASET}") for method in METHODS]
    results: dict[str, list[dict]] = {recipe.title: [] for recipe in chosen}
    scored: dict[str, evaluation.ModelScores] = {}
    settings = training.Settings(verbose=verbose)
    for seed in range(seeds):
        for recipe in chosen:
            print(f"training {recipe.name}, seed {seed}", flush=True)
            done = training.train(recipe, out / f"{recipe.method}_{seed}", seed, settings)
            found = evaluation.score_datasets(done.predictor(), DATASET, recipe.out_of_distribution)
            results[recipe.title].append(found.metrics())
            files.write_json(done.directory / METRICS, results[recipe.title][-1])
            scored.setdefault(recipe.title, found)
    table = _comparison_table(results, recipe.out_of_distribution)
    for form, suffix in (("markdown", "md"), ("csv", "csv")):
        files.write_text(out / f"table.{suffix}", tables.render(table, form) + "\n")
    known = {title: (found.known.probs, found.known.labels) for title, found in scored.items()}
    figures.reliability_diagram(known, out / "reliability.png")
    sets = {title: {DATASET: found.known, **found.unknown} for title, found in scored.items()}
    scores = {
        title: {dataset_title(name): part.scores for name, part in parts.items()}
        for title, parts in sets.items()
    }
    figures.uncertainty_histograms(scores, out / "uncertainty.png")
    return "\n".join(
        [
            tables.render(table, "text"),
            "",
            _explanation(*results.values()),
            "",
            f"{time.monotonic() - began:.0f} seconds; the table and plots are in {out}/:",
            *(f"  {name}" for name in WRITTEN),
        ]
    )


def _comparison_table(results: dict[str, list[dict]], ood: Sequence[str]) -> tables.Table:
    """The paper's columns, one block for each out-of-distribution dataset."""
    blocks = []
    for name in ood:
        part = tables.overview_table(results, DATASET, [name], group="OOD")
        blocks.append([[row[0], dataset_title(name), *row[1:]] for row in part.rows])
    model, *metrics = part.columns
    seeds = len(next(iter(results.values())))
    spread = f", mean ± 2 std of {seeds} seeds" if seeds > 1 else ""
    notes = _paired(*results.values()) if seeds > 1 else ()
    return tables.make(
        f"{ARCHITECTURE} on {DATASET}{spread}",
        [model, ("", "OOD set"), *metrics],
        blocks,
        stub=2,
        footnotes=notes,
    )


def _paired(plain, s2d):
    """What the pairs of runs with the same seed say about NLL and ECE."""
    notes = []
    for name in ("nll", "ece"):
        key = f"{DATASET}/{name}"
        differences = np.array([a[key] - b[key] for a, b in zip(plain, s2d, strict=True)])
        mean, low, high = mean_interval(differences)
        notes.append(
            f"{name.upper()}: S2D is lower for {(differences > 0).sum()} of {len(plain)} seeds, by "
            f"{mean:.4f} (95% interval {low:.4f} to {high:.4f})."
        )
    return notes


def _explanation(plain: list[dict], s2d: list[dict]) -> str:
    """Two or three sentences on what the person is looking at."""

    def percent(runs, key):
        return f"{100 * np.mean([found[key] for found in runs]):.1f}"

    near, far = (f"{DATASET}_{name}/auroc/knowledge" for name in ("heldout", "photos"))
    return textwrap.fill(
        "Both models are the same network with the same number of parameters, and each predicts in "
        "one forward pass. The plain one's stated confidence is off by "
        f"{percent(plain, f'{DATASET}/ece')} points on average (ECE), the S2D one's by "
        f"{percent(s2d, f'{DATASET}/ece')}; only the S2D one splits its uncertainty into data "
        "uncertainty (DU: the image is ambiguous) and knowledge uncertainty (KU: it has seen "
        "nothing like it). KU alone detects digits it was never shown with an AUROC of "
        f"{percent(s2d, near)}%, and photographs with {percent(s2d, far)}%; 50% would be guessing.",
        width=100,
    )
