"""All tables that evaluated runs fill, and the folder that keeps them.

A folder of results has `runs/`, the JSON files of every run and member in the shape of run
directories, so that `s2d table` reads it like the runs themselves, and `tuning/`, the sweeps of
`s2d tune`; `tables.md` is made from them and nothing else.
"""

from __future__ import annotations

import collections
import pathlib
import shutil
from collections.abc import Iterable

import numpy as np

from s2d_tf import data, files
from s2d_tf._types import PathLike
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import (
    METRICS,
    OURS,
    TWINS,
    UNCERTAINTIES,
    dataset_title,
    format_difference,
    metric,
    metric_title,
)
from s2d_tf.evaluation.tables import metric_keys, metric_table, uncertainty_keys
from s2d_tf.metrics.statistics import mean_interval
from s2d_tf.zoo import Run, runs

from . import claims, paper_tables, views
from .detectors import detector_tables
from .results import Result, by_title, by_variant, collect, groups, markdown, ood_names, public

RUNS, SWEEPS, TABLES, FIGURE = "runs", "tuning", "tables.md", "overconfidence.png"
KEPT = (runs.RECIPE, runs.INTERVALS, runs.SUMMARY)
# Other networks are shown in the shape of these tables, which have every method.
DEFAULT_ARCHITECTURE = "densenet_bc_100_12"
# Panels of the figure: what is compared, of S2D and of its plain twin, on sets of a kind.
PLAIN, SCALED, KNOWLEDGE = (
    "S2D minus plain",
    "S2D minus temperature-scaled plain",
    "knowledge of S2D minus total of plain",
)
COMPARED = {
    "NLL": ("known", {PLAIN: ("nll", "nll"), SCALED: ("nll", "scaled_nll")}),
    "%ECE": ("known", {PLAIN: ("ece", "ece"), SCALED: ("ece", "scaled_ece")}),
    "Near, %AUROC": (
        "near",
        {PLAIN: ("auroc/total",) * 2, KNOWLEDGE: ("auroc/knowledge", "auroc/total")},
    ),
}
COMPARED["Far, %AUROC"] = ("far", COMPARED["Near, %AUROC"][1])


def tables_of(results: list[Result], number: int | None = None) -> list[tables.Table]:
    """The paper's tables for CIFAR-100 runs, and an overview for runs on other data.

    Args:
        results: `Result`s.
        number: only the table with this number, for every network among the runs; None makes all
            tables in which some cell is ours.

    Returns:
        `tables.Table`s, which `evaluation.tables.render` writes in any of its formats.

    Example:

    >>> len(studies.tables_of(studies.collect(["run"]))) > 0
    True
    """
    if number is not None:
        architectures = dict.fromkeys(r.recipe.architecture for r in results)
        own = paper_tables.published_table(number).architecture
        chosen = [own] if own in architectures else architectures
        return [paper_tables.paper_table(number, results, name) for name in chosen]
    made, known = [], {table.architecture for table in paper_tables.published_tables()}
    trained_on = paper_tables.TRAINED_ON.values()
    ours = [r.recipe.architecture for r in results if r.recipe.dataset in trained_on]
    for name in dict.fromkeys(ours):
        shape = name if name in known else DEFAULT_ARCHITECTURE
        numbers = [t.number for t in paper_tables.published_tables() if t.architecture == shape]
        made += [paper_tables.paper_table(n, results, name) for n in numbers]
    made = [table for table in made if paper_tables.has_numbers(table)]
    made += overview([r for r in results if r.recipe.dataset not in trained_on])
    return made + [t for own in groups(results).values() for t in detector_tables(own)]


def archive(directories: Iterable[PathLike], out: PathLike) -> pathlib.Path:
    """Copies the metrics of runs and sweeps to `out` and regenerates `out/tables.md`.

    What `out` already contains stays, unless something of the same name is among `directories`.

    Args:
        directories: evaluated run directories and folders of `s2d tune`, kept under their names.
        out: folder.

    Returns:
        Path of the tables.

    Example:

    >>> studies.archive(["run"], "results").name
    'tables.md'
    """
    from ..training import tuning  # Here: it brings TensorFlow.

    out = pathlib.Path(out)
    folders = [path for path in map(pathlib.Path, directories) if not path.is_file()]
    sweeps = [folder for folder in folders if (folder / tuning.RECORD).is_file()]
    runs = [folder for folder in folders if folder not in sweeps]
    collect(runs)  # Before anything is copied: each one is a run and evaluated.
    for directory in runs:
        target = out / RUNS / directory.resolve().name
        if target.resolve() != directory.resolve():
            shutil.rmtree(target, ignore_errors=True)
            for part in views.nested(Run.open(directory)):
                _copy(part.directory, target / part.directory.relative_to(directory))
    for directory in sweeps:
        record = files.read_json(directory / tuning.RECORD)
        files.write_json(out / SWEEPS / f"{directory.resolve().name}.json", record)
    files.write_text(out / TABLES, text(out))
    draw_overconfidence(collect(sorted(out.glob(f"**/{RUNS}/*"))), out / FIGURE)
    return out / TABLES


def text(out: pathlib.Path) -> str:
    """All tables of an archive and the verdict on each claim, as Markdown."""
    from ..training import tuning

    results = collect(sorted((out / RUNS).glob("*")))
    counts = collections.Counter(result.recipe.architecture for result in results)
    parts: list[str | tables.Table] = []
    for architecture, _ in counts.most_common():
        own = [r for r in results if r.recipe.architecture == architecture]
        parts += [f"# {architecture}\n", *tables_of(own)]
        for (_, dataset), group in groups(own).items():
            parts += [f"## Trained on {dataset}\n", *_own_tables(group)]
            parts += [claims.table(group)]
    sweeps = {p.stem: files.read_json(p) for p in sorted((out / SWEEPS).glob("*.json"))}
    parts += ["# Sweeps on the validation split, the best NLL first\n"] if sweeps else []
    for label, record in sweeps.items():
        epochs = record["recipe"]["training"]["epochs"]
        heading = f"**{label}: {record['name']}, {epochs} epochs, seed {record['seed']}**"
        parts += [f"{heading}\n\n{tuning.table(record['key'], record['rows'])}\n"]
    return markdown(parts, out)


def _own_tables(group):
    """Tables that the paper does not have: of our own students, of calibration and of pairs."""
    made = [
        *(overview(group) if any(r.recipe.method in OURS for r in group) else ()),
        calibration_table(group),
        twins_table(group),
        students_table(group),
        cost_table(group),
    ]
    return [table for table in made if table]


def draw_overconfidence(results: list[Result], path: PathLike) -> None:
    """Draws S2D minus its plain twin against the plain network's calibrating temperature.

    A point is the mean over the seeds of one architecture, dataset, length and weight decay, with
    Student's interval where there are several. Detection is the mean over the sets of a kind.
    """
    from s2d_tf.evaluation import figures

    twins: dict[tuple, dict[str, dict[int, Result]]] = {}
    for result in results:
        recipe = result.recipe
        settings = recipe.training.epochs, recipe.training.weight_decay
        methods = twins.setdefault((recipe.architecture, recipe.dataset, *settings), {})
        methods.setdefault(recipe.method, {})[result.seed] = result
    panels: dict[str, dict] = {title: {} for title in COMPARED}
    for methods in twins.values():
        s2d, plain = (methods.get(name, {}) for name in ("s2d", "individual"))
        pairs = [(s2d[seed], plain[seed]) for seed in s2d.keys() & plain.keys()]
        for title, (kind, lines) in COMPARED.items() if pairs else ():
            temperature = np.mean([_mean_of(pair[1], "known", "temperature") for pair in pairs])
            for label, keys in lines.items():
                sides = [
                    [_mean_of(pair[side], kind, keys[side]) for pair in pairs] for side in (0, 1)
                ]
                scale = METRICS[keys[0].split("/")[0]].scale
                differences = scale * (np.array(sides[0]) - np.array(sides[1]))
                mean, (_, low, _) = float(differences.mean()), mean_interval(differences)
                point = temperature, mean, 0.0 if low is None else mean - low
                panels[title].setdefault(label, []).append(point)
    shown = {
        title: {label: tuple(zip(*points, strict=True)) for label, points in lines.items()}
        for title, lines in panels.items()
    }
    if any(shown.values()):
        figures.curves(shown, path, "Temperature of the plain network")


def _mean_of(result, kind, key):
    """A metric on the known dataset, or its mean over the near or far sets that were evaluated."""
    named = [result.recipe.source_dataset]
    if kind != "known":
        named = [n for n in ood_names([result]) if data.info(n).distance == kind]
    return np.mean([result.metrics[f"{name}/{key}"] for name in named])


def _copy(directory, target):
    target.mkdir(parents=True)
    for name in KEPT:
        if (directory / name).is_file():
            shutil.copyfile(directory / name, target / name)
    if (directory / runs.METRICS).is_file():
        files.write_json(target / runs.METRICS, public(files.read_json(directory / runs.METRICS)))


def overview(results: list[Result]) -> list[tables.Table]:
    """Tables of each network and dataset of `Result`s: performance, then OOD detection."""
    made = []
    for own in groups(results).values():
        recipe, named = own[0].recipe, by_title(own)
        caption = f"{recipe.architecture} on {recipe.dataset}"
        counts = "; ".join(f"{title}: {len(seeds)}" for title, seeds in named.items())
        repeats = any(len(seeds) > 1 for seeds in named.values())
        note = f"Seeds of {counts}." + " ± is two standard deviations over seeds." * repeats
        keys = metric_keys(recipe.source_dataset, ("accuracy", "nll", "ece", "brier"))
        made.append(metric_table(named, keys, f"{caption}: test performance", [note]))
        for name in ood_names(own):
            keys = uncertainty_keys({f"{name}/auroc": "OOD %AUROC", f"{name}/aupr": "OOD %AUPR"})
            title = f"{caption}: OOD detection results ({dataset_title(name)})"
            made.append(metric_table(named, keys, title))
    return made


def of_group(results: list[Result]) -> list[tables.Table]:
    """All tables that runs of one network and training set fill, but for the list of runs.

    Calibration; what is gained by abstaining, by each uncertainty; false alarms, where 95% of the
    OOD images are found; S2D against its twin; cost.
    """
    named, dataset = by_title(results), results[0].recipe.source_dataset
    measures = ("aurc", "augrc", "risk_at_80_coverage")
    rejecting = uncertainty_keys({f"{dataset}/{name}": METRICS[name].title for name in measures})
    caption = f"Rejecting the most uncertain images of {dataset_title(dataset)}"
    smaller = ["Smaller is better in every column."]
    made: list[tables.Table | None] = [
        calibration_table(results),
        metric_table(named, rejecting, caption, smaller),
    ]
    ood = [(f"{n}/fpr_at_95_recall", dataset_title(n)) for n in ood_names(results)]
    for start in range(0, len(ood), 2):  # more would be wider than a screen
        caption = "Known images flagged (%) where 95% of the OOD images are found"
        made.append(
            metric_table(named, uncertainty_keys(dict(ood[start : start + 2])), caption, smaller)
        )
    made += [twins_table(results), cost_table(results)]
    return [table for table in made if table is not None]


def calibration_table(results: list[Result]) -> tables.Table:
    """Raw and temperature-scaled metrics side by side."""
    dataset = results[0].recipe.source_dataset
    calibrated = ("nll", "ece", "adaptive_ece", "brier")
    scaled = ("temperature", *(f"scaled_{name}" for name in calibrated))
    keys = {
        **metric_keys(dataset, calibrated, "Raw"),
        **metric_keys(dataset, scaled, "Temperature-scaled"),
    }
    note = (
        "The temperature is fitted on the validation split, which was kept out of training."
        if all(result.split != "train" for result in results)
        else "Runs that were trained on all images have no validation split left: each half of the "
        "test split is scaled by the temperature of the other half."
    )
    return metric_table(by_title(results), keys, f"Calibration on {dataset_title(dataset)}", [note])


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
                differences = np.subtract(*zip(*held, strict=True))
                rows.append(_pair_row(variants[own][0].title, used, differences))
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


def _pair_row(title, keys, differences):
    key, other = keys
    against = "" if other == key else f" against {metric_title(other)}"
    _, *ends = mean_interval(differences)
    better = differences < 0 if metric(key).best is min else differences > 0
    return [
        title,
        f"{dataset_title(key.split('/')[0])} {metric_title(key)}{against}",
        format_difference(key, differences.mean()),
        " to ".join(format_difference(key, end) for end in ends if end is not None),
        f"{better.sum()} of {differences.size}",
    ]
