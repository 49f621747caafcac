"""Tables of scores by out-of-distribution sets: uncertainties and post-hoc detectors side by side.

Nothing here imports TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from s2d_tf.evaluation import statistics, tables
from s2d_tf.evaluation.names import (
    DETECTORS,
    METRICS,
    TWINS,
    UNCERTAINTIES,
    dataset_title,
    format_difference,
    format_value,
    score_title,
)

from .result_tables import best_of, metric_table
from .results import by_title, by_variant

if TYPE_CHECKING:
    from .results import Result

RANKINGS = ("auroc", "aupr", "fpr_at_95_recall")
REJECTION = ("aurc", "augrc", "risk_at_80_coverage")
ALL_SETS = "Mean"


def of_group(results: list[Result]) -> list[tables.Table]:
    """All tables of detectors for runs of one network and training set; none without detectors.

    AUROC, AUPR and FPR at 95% recall of every score for every out-of-distribution set, abstention
    by every score, S2D against post-hoc scores of its plain twin, and the rank correlation of data
    and knowledge uncertainty.
    """
    recipe, named = results[0].recipe, by_title(results)
    dataset, of = recipe.source_dataset, f"{recipe.architecture} on {results[0].trained_on}: "
    if not set(score_names(named)) - set(UNCERTAINTIES):
        return []
    ood = [name for name in recipe.out_of_distribution if _measured(named, name)]
    made = [
        score_table(
            named,
            {name: f"{name}/{ranking}" for name in ood},
            f"{of}{METRICS[ranking].title} of each score",
            mean=len(ood) > 1,
        )
        for ranking in RANKINGS
        if ood
    ]
    made.append(
        score_table(
            named,
            {METRICS[name].title: f"{dataset}/{name}" for name in REJECTION},
            f"{of}rejecting the images with the largest score",
            ["Smaller is better in every column."],
        )
    )
    made += twin_tables(results, ood, of)
    return made + correlation_tables(named, [dataset, *ood], of)


def score_names(named: dict[str, list[dict]]) -> list[str]:
    """The scores in `{label: [metrics of each seed]}`, in the order of all tables."""
    keys = (key.split("/") for seeds in named.values() for metrics in seeds for key in metrics)
    found = {parts[2] for parts in keys if len(parts) == 3 and parts[1] in RANKINGS + REJECTION}
    order = (*UNCERTAINTIES, *DETECTORS)
    return [n for n in order if n in found] + sorted(found - set(order))


def score_table(
    named: dict[str, list[dict]],
    columns: dict[str, str],
    caption: str = "",
    footnotes: Sequence[str] = (),
    mean: bool = False,
) -> tables.Table:
    """One row for each model and score, one column for each dataset or metric.

    Args:
        named: `{label: [metrics of each seed]}`.
        columns: `{dataset or title: key without its score}`.
        caption, footnotes: text around the table.
        mean: whether to add the mean of all columns, where a score has all of them.

    Returns:
        `tables.Table`, a block for each model; the best of each column is marked.
    """
    scores = score_names(named)
    rows: dict[tuple[str, str], list] = {
        (label, score): [label, score_title(score)] for label in named for score in scores
    }
    values: dict[tuple[str, str], dict] = {place: {} for place in rows}
    for title, stem in columns.items():
        for label, score in rows:
            found = [m[key] for m in named[label] if (key := f"{stem}/{score}") in m]
            if found:
                values[label, score][title] = found
    titles = [*columns, ALL_SETS] if mean else [*columns]
    for own in values.values():
        if mean and len(own) == len(columns):
            own[ALL_SETS] = [float(np.mean(each)) for each in zip(*own.values(), strict=False)]
    for title in titles:
        key = f"{columns.get(title, next(iter(columns.values())))}/score"
        means = {
            place: statistics.mean_and_two_std(own[title])
            for place, own in values.items()
            if title in own
        }
        best = best_of(key, {place: value for place, (value, _) in means.items()})
        for place, row in rows.items():
            text = format_value(key, *means[place]) if place in means else ""
            row.append(tables.Cell(text, best=place in best))
    blocks = [
        [row for (label, _), row in rows.items() if label == each and values[label, _]]
        for each in named
    ]
    heads = [("", "Model"), ("", "Score"), *(("", dataset_title(title)) for title in titles)]
    return tables.make(caption, heads, blocks, stub=2, footnotes=footnotes)


def twin_tables(results: list[Result], ood: Sequence[str], of: str = "") -> list[tables.Table]:
    """For each out-of-distribution set the best of S2D's uncertainties, and of its plain twin's
    uncertainties and post-hoc scores: which to use where, and whether S2D was needed for it."""
    variants, made = by_variant(results), []
    for plain, s2d in TWINS.items():
        if plain not in variants or s2d not in variants:
            continue
        seeds = {name: [r.metrics for r in variants[name]] for name in (plain, s2d)}
        posthoc = [n for n in score_names(seeds) if n not in UNCERTAINTIES]
        rows = []
        for name in ood:
            own = _best(seeds[s2d], f"{name}/auroc", UNCERTAINTIES)
            twin = _best(seeds[plain], f"{name}/auroc", UNCERTAINTIES)
            fitted = _best(seeds[plain], f"{name}/auroc", posthoc)
            both = _best(seeds[s2d], f"{name}/auroc", posthoc)
            if own and twin and fitted and both:
                rows.append([dataset_title(name), *map(_cell, (twin, own, fitted, both))])
                rows[-1] += [
                    format_difference(f"{name}/auroc", own[1] - fitted[1]),
                    _say(own, fitted),
                ]
        titles = variants[s2d][0].title, variants[plain][0].title
        columns = [
            "OOD set",
            f"{titles[1]}, own",
            f"{titles[0]}, own",
            f"{titles[1]}, post-hoc",
            f"{titles[0]}, post-hoc",
            "S2D's own minus plain post-hoc",
            "Better",
        ]
        if rows:
            note = "The best %AUROC over scores, chosen on these images: a bound, not a choice."
            caption = f"{of}{titles[0]} against post-hoc scores"
            made.append(tables.make(caption, columns, [rows], footnotes=[note]))
    return made


def correlation_tables(
    named: dict[str, list[dict]], datasets: Sequence[str], of: str = ""
) -> list[tables.Table]:
    """Spearman's rank correlation of data and knowledge uncertainty, by model and dataset."""
    keys = {f"{name}/rank_correlation": ("", dataset_title(name)) for name in datasets}
    own = {label: [m for m in seeds if keys.keys() & m.keys()] for label, seeds in named.items()}
    own = {label: seeds for label, seeds in own.items() if seeds}
    note = "1: both uncertainties put the images into one order."
    caption = f"{of}rank correlation of data and knowledge uncertainty"
    return [metric_table(own, keys, caption, [note])] if own else []


def _measured(named, ood):
    return any(f"{ood}/auroc/total" in metrics for seeds in named.values() for metrics in seeds)


def _best(seeds, stem, scores):
    """`(score, mean)` of the best of some scores, or None."""
    values = {n: [m[f"{stem}/{n}"] for m in seeds if f"{stem}/{n}" in m] for n in scores}
    means = {name: float(np.mean(own)) for name, own in values.items() if own}
    return max(means.items(), key=lambda item: item[1], default=None)


def _cell(best):
    name, value = best
    return f"{format_value('ood/auroc', value)} {score_title(name)}"


def _say(own, fitted):
    if format_value("ood/auroc", own[1]) == format_value("ood/auroc", fitted[1]):
        return "equal as printed"
    return "S2D's own" if own[1] > fitted[1] else "post-hoc on the plain network"
