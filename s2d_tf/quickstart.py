"""A first look: a plain classifier and its S2D twin on embedded images."""

import pathlib
import textwrap
import time

import numpy as np

from s2d_tf import files, recipes, training
from s2d_tf.evaluation import (
    evaluator,
    figures,
    names,
    overview,
    predictions,
    scoring,
    statistics,
    table_picture,
    tables,
)
from s2d_tf.storage.layout import METRICS

ARCHITECTURE = "wrn_10_2_s2"
DATASET = "digits"
METHODS = ("individual", "s2d")
WRITTEN = ("table.md", "table.csv", "table.png", "reliability.png", "uncertainty.png")


def run(out, seeds=1, verbose=None):
    """Trains, evaluates and explains both models.

    Args:
        out: folder for the runs, the table and the pictures.
        seeds: how many pairs to train; above 1 the table shows mean and spread.
        verbose: Keras' verbosity; `None` shows a bar for each epoch on a terminal.

    Returns:
        The text for the person who asked.
    """
    began, out = time.monotonic(), pathlib.Path(out)
    recipes = {m: recipes.resolve(f"{ARCHITECTURE}.{m}.{DATASET}") for m in METHODS}
    results = {method: [] for method in METHODS}
    scored = {}
    for seed in range(seeds):
        for method, recipe in recipes.items():
            print(f"training {recipe.name}, seed {seed}", flush=True)
            settings = training.Settings(verbose=verbose)
            done = training.train(recipe, out / f"{method}_{seed}", seed, settings)
            predictor = done.predictor()
            found, parts = _evaluate(predictor, recipe)
            files.write_json(done.directory / METRICS, found)
            results[method].append(found)
            if seed == 0:
                scored[recipe.title] = parts
    table = comparison_table(results, recipes)
    for form, suffix in (("markdown", "md"), ("csv", "csv")):
        files.write_text(out / f"table.{suffix}", tables.render(table, form) + "\n")
    table_picture.draw(table, out / "table.png")
    figures.reliability_diagram(
        {title: (p[DATASET].probs, p[DATASET].labels) for title, p in scored.items()},
        out / "reliability.png",
    )
    figures.uncertainty_histograms(
        {
            title: {names.dataset_title(name): part.scores for name, part in parts.items()}
            for title, parts in scored.items()
        },
        out / "uncertainty.png",
    )
    lines = [tables.render(table, "text"), "", explanation(results)]
    lines += ["", f"{time.monotonic() - began:.0f} seconds; table and pictures are in {out}/:"]
    lines += [f"  {name}" for name in WRITTEN]
    return "\n".join(lines)


def _evaluate(predictor, recipe):
    sets = (recipe.source_dataset, *recipe.out_of_distribution)
    parts = {name: scoring.score(predictions.predict(predictor, name)) for name in sets}
    found = evaluator.classification(DATASET, parts[DATASET])
    for name in recipe.out_of_distribution:
        found |= evaluator.detection(name, parts[DATASET], parts[name])
    return found, parts


def comparison_table(results, recipes):
    """The paper's columns, one block for each out-of-distribution set."""
    titled = {recipes[method].title: results[method] for method in METHODS}
    blocks = []
    for ood in recipes[METHODS[0]].out_of_distribution:
        part = overview.overview_table(titled, DATASET, [ood], group="OOD")
        blocks.append([[row[0], names.dataset_title(ood), *row[1:]] for row in part.rows])
    model, *metrics = part.columns
    seeds = len(results[METHODS[0]])
    caption = f"{ARCHITECTURE} on {DATASET}" + (
        f", mean ± 2 std of {seeds} seeds" if seeds > 1 else ""
    )
    columns = [model, ("", "OOD set"), *metrics]
    return tables.make(caption, columns, blocks, stub=2, footnotes=_paired(results))


def _paired(results):
    """What the pairs of runs with the same seed say about NLL and ECE."""
    plain, s2d = (results[method] for method in METHODS)
    if len(plain) < 2:
        return ()
    notes = []
    for name, key in (("NLL", f"{DATASET}/nll"), ("ECE", f"{DATASET}/ece")):
        pair = [[found[key] for found in runs] for runs in (plain, s2d)]
        compared = statistics.compare_over_seeds(*pair)
        wins = sum(b < a for a, b in zip(*pair, strict=True))
        notes.append(
            f"{name}: S2D is lower for {wins} of {len(plain)} seeds, by "
            f"{compared.mean_difference:.4f} (95% interval {compared.low:.4f} to "
            f"{compared.high:.4f})."
        )
    return tuple(notes)


def explanation(results):
    """Two or three sentences on what the person is looking at."""

    def percent(method, key):
        return f"{100 * np.mean([found[key] for found in results[method]]):.1f}"

    near, far = (f"{DATASET}_{name}/auroc/knowledge" for name in ("heldout", "photos"))
    return textwrap.fill(
        "Both models are the same network with the same number of parameters, and each answers in "
        "one forward pass. The plain one's stated confidence is off by "
        f"{percent('individual', f'{DATASET}/ece')} points on average (ECE), the S2D one's by "
        f"{percent('s2d', f'{DATASET}/ece')}; only the S2D one splits its doubt into data "
        "uncertainty (DU: the image is ambiguous) and knowledge uncertainty (KU: it has seen "
        "nothing like it). KU alone tells digits it was never shown from known ones with an AUROC "
        f"of {percent('s2d', near)}%, and photographs with {percent('s2d', far)}%; 50% would be "
        "guessing.",
        width=100,
    )
