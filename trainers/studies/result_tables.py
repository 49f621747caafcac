"""Tables of evaluated runs: those of any report, and those of pairs of methods."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from s2d_tf.evaluation import intervals, tables
from s2d_tf.evaluation.names import (
    METRICS,
    TWINS,
    UNCERTAINTIES,
    dataset_title,
    format_difference,
    metric,
    metric_title,
)
from s2d_tf.evaluation.tables import metric_keys, metric_table, uncertainty_keys

from .results import by_title, by_variant, groups, ood_names

if TYPE_CHECKING:
    from .results import Result

_MAX_SEEDS_SHOWN = 8


def overview(results: list[Result]) -> list[tables.Table]:
    """Tables of each network and dataset of `Result`s: performance, then OOD detection."""
    return [table for own in groups(results).values() for table in _overview(own)]


def _overview(results):
    recipe, named = results[0].recipe, by_title(results)
    caption = f"{recipe.architecture} on {recipe.dataset}"
    counts = "; ".join(f"{title}: {len(seeds)}" for title, seeds in named.items())
    notes = [f"Seeds of {counts}."]
    if any(len(seeds) > 1 for seeds in named.values()):
        notes[0] += " ± is two standard deviations over seeds."
    keys = metric_keys(recipe.source_dataset, ("accuracy", "nll", "ece", "brier"))
    made = [metric_table(named, keys, f"{caption}: test performance", notes)]
    for name in ood_names(results):
        keys = uncertainty_keys({f"{name}/auroc": "OOD %AUROC", f"{name}/aupr": "OOD %AUPR"})
        title = f"{caption}: OOD detection results ({dataset_title(name)})"
        made.append(metric_table(named, keys, title))
    return made


def of_group(results: list[Result]) -> list[tables.Table]:
    """All tables that runs of one network and training set fill, but for the list of runs."""
    fitted = {r.metrics.get("run/temperature_fitted_on") for r in results} - {None}
    named, dataset = by_title(results), results[0].recipe.source_dataset
    made = [
        *of_metrics(named, dataset, ood_names(results), fitted == {"validation"}),
        twins_table(results),
        cost_table(results),
    ]
    return [table for table in made if table is not None]


def of_metrics(
    named: dict[str, Any], dataset: str, ood: Sequence[str] = (), validated: bool = False
) -> list[tables.Table]:
    """The tables beside the overview that metrics of any models fill."""
    made = [calibration_table(named, dataset, validated), rejection_table(named, dataset)]
    return [*made, false_alarm_table(named, ood)] if ood else made


def runs_table(results: list[Result]) -> tables.Table:
    """Which runs the report is made from."""
    grouped: dict[tuple, list] = {}
    for result in results:
        recipe = result.recipe
        key = recipe.architecture, recipe.dataset, result.title, result.split
        grouped.setdefault(key, []).append(result.seed)
    shown = {key: [*map(str, sorted(s)[:_MAX_SEEDS_SHOWN]), "..."] for key, s in grouped.items()}
    rows = [[*key, ", ".join(shown[key][: len(seeds)])] for key, seeds in grouped.items()]
    return tables.make("", ["Network", "Data", "Method", "Trained on", "Seeds"], [rows], stub=5)


def calibration_table(named: dict[str, Any], dataset: str, validated: bool = False) -> tables.Table:
    """Raw and temperature-scaled metrics side by side."""
    calibrated = ("nll", "ece", "adaptive_ece", "brier")
    scaled = ("temperature", *(f"scaled_{name}" for name in calibrated))
    keys = {
        **metric_keys(dataset, calibrated, "Raw"),
        **metric_keys(dataset, scaled, "Temperature-scaled"),
    }
    note = (
        "The temperature is fitted on the validation split, which was kept out of training."
        if validated
        else "Runs that were trained on all images have no validation split left: each half of the "
        "test split is scaled by the temperature of the other half."
    )
    return metric_table(named, keys, f"Calibration on {dataset_title(dataset)}", [note])


def rejection_table(named: dict[str, Any], dataset: str) -> tables.Table:
    """What is gained by abstaining, by each uncertainty."""
    measures = ("aurc", "augrc", "risk_at_80_coverage")
    return metric_table(
        named,
        uncertainty_keys({f"{dataset}/{name}": METRICS[name].title for name in measures}),
        f"Rejecting the most uncertain images of {dataset_title(dataset)}",
        ["Smaller is better in every column."],
    )


def false_alarm_table(named: dict[str, Any], ood: Sequence[str]) -> tables.Table:
    """FPR at 95% recall, OOD positive."""
    return metric_table(
        named,
        uncertainty_keys({f"{name}/fpr_at_95_recall": dataset_title(name) for name in ood}),
        "Known images flagged (%) where 95% of the OOD images are found",
        ["Smaller is better."],
    )


def cost_table(results: list[Result]) -> tables.Table | None:
    """Parameters, and time per image relative to the individual network."""
    key = "cost/relative_inference_time"
    rows = [
        [title, f"{seeds[0]['cost/parameters']:,}", f"{np.mean([m[key] for m in seeds]):.2f} ×"]
        for title, seeds in by_title(results).items()
        if "cost/parameters" in seeds[0]
    ]
    return tables.make(
        "Cost of a prediction",
        ["Model", "Parameters", "Time per image"],
        [rows],
        footnotes=["Time as a multiple of the individual network's, measured in turns with it."],
    )


def twins_table(results: list[Result], keys: list[str] | None = None) -> tables.Table | None:
    """S2D against its plain twin, paired by seed; None where no pair shares one.

    `keys` are the metrics to compare; None: performance, also with temperatures that were fitted to
    the plain network or to both, and OOD detection by the same score, and by S2D's knowledge
    uncertainty against the plain network's total uncertainty.
    """
    return _pairs_table(results, TWINS, ("S2D", "plain"), "S2D against its plain twin", keys)


def students_table(results: list[Result]) -> tables.Table | None:
    """Our student against EnD in the same metrics, paired by seed; None without a pair."""
    return _pairs_table(results, {"end": "h2d"}, ("H2D", "EnD"), "H2D (ours) against EnD")


def _pairs_table(results, pairs, names, caption, keys=None):
    """Methods `{other: own}` compared by seed; `names` are short ones of own and other."""
    variants, recipe = by_variant(results), results[0].recipe
    compared = [(key, key) for key in keys] if keys else _compared(recipe, ood_names(results))
    own_name, other_name = names
    blocks = []
    for other, own in pairs.items():
        sides = [{r.seed: r.metrics for r in variants.get(name, ())} for name in (own, other)]
        seeds = sorted(sides[0].keys() & sides[1].keys())
        rows = []
        for used in compared:
            held = [[t[seed].get(k) for t, k in zip(sides, used, strict=True)] for seed in seeds]
            held = [pair for pair in held if None not in pair]
            if held:
                found = intervals.compare_over_seeds(*zip(*held, strict=True))
                rows.append(_pair_row(variants[own][0].title, used, found))
        blocks += [rows] if rows else []
    titles = [f"{own_name} minus {other_name}", "95% interval", f"Seeds better for {own_name}"]
    table = tables.make(
        caption,
        ["Model", "Metric", *titles],
        blocks,
        stub=2,
        footnotes=[
            "Paired by seed; Student's interval for the mean difference, in percentage points "
            "except for NLL."
        ],
    )
    return table if blocks else None


def _compared(recipe, ood):
    """Pairs of keys: of the first method and of the one that it is compared with."""
    known = recipe.source_dataset
    made = [(f"{known}/{name}",) * 2 for name in ("accuracy", "nll", "ece")]
    for prefix in ("", "scaled_"):
        made += [(f"{known}/{prefix}{n}", f"{known}/scaled_{n}") for n in ("nll", "ece")]
    for name in ood:
        made += [(f"{name}/auroc/{score}",) * 2 for score in UNCERTAINTIES[:2]]
        made.append((f"{name}/auroc/knowledge", f"{name}/auroc/total"))
    return made


def _pair_row(title, keys, compared):
    key, other = keys
    against = "" if other == key else f" against {metric_title(other)}"
    ends = [end for end in (compared.low, compared.high) if end is not None]
    better = compared.negative if metric(key).best is min else compared.positive
    return [
        title,
        f"{dataset_title(key.split('/')[0])} {metric_title(key)}{against}",
        format_difference(key, compared.mean_difference),
        " to ".join(format_difference(key, end) for end in ends),
        f"{better} of {compared.num_pairs}",
    ]
