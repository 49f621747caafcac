"""Tables and curves of metrics under shift, made from the flat dicts of `Shift.metrics`.

Nothing here imports TensorFlow; matplotlib comes with the figures.
"""

import pathlib

import numpy as np

from s2d_tf import files
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import LONG_NAMES, METRICS, UNCERTAINTIES, dataset_title, format_value
from s2d_tf.zoo.layout import SHIFT

from .result_tables import metric_keys, metric_table, twins_table, uncertainty_keys
from .results import Result, by_title, repeated

Named = dict[str, list[dict]]
"""`{title of a model: [flat metrics of each seed]}`."""


def with_shift(results: list[Result]) -> list[Result]:
    """The results that were evaluated under shift, with those metrics in place of the others."""
    found = []
    for result in results:
        path = result.directory / SHIFT
        if path.is_file():
            parts = vars(result) | {"metrics": files.read_json(path)}
            found.append(Result(**parts))
    return found


def dataset_names(named: Named) -> list[str]:
    """The datasets whose conditions were evaluated, such as "cifar100_c_generated"."""
    keys = [key for seeds in named.values() for metrics in seeds for key in metrics]
    stems = [key.split("/")[0] for key in keys if "/shift_correlation/" in key]
    return list(dict.fromkeys(stems))


def shift_tables(named: Named, dataset: str) -> list[tables.Table]:
    """The means, the metrics at each severity, and accuracy by corruption.

    Args:
        named: the models.
        dataset: one of `dataset_names(named)`.
    """
    title = dataset_title(dataset)
    found = _conditions(named, dataset)
    count = len({corruption for corruption, _ in found})
    images = sorted({int(m["shift/images"]) for s in named.values() for m in s if m})
    notes = [
        f"{count} corruptions; means are over the main ones at all severities. "
        f"{' and '.join(f'{n:,}' for n in images)} test images.",
        "AUROC of errors: whether wrong answers are more uncertain than right ones. Uncertainty "
        "rises with errors: rank correlation of mean uncertainty and error rate over all "
        "conditions and the clean test set; 1 where it always rises as accuracy falls.",
    ]
    keys = metric_keys(dataset, ("accuracy", "nll", "ece"), "Mean")
    by_uncertainty = {
        f"{dataset}/{name}": METRICS[name].title for name in ("error_auroc", "shift_correlation")
    }
    made = [metric_table(named, keys | uncertainty_keys(by_uncertainty), f"{title}: means", notes)]
    for metric in ("accuracy", "nll", "ece", "error_auroc/total"):
        stem = METRICS[metric.split("/")[0]].title
        columns = {
            f"{dataset}.{place}/{metric}": ("Severity", heading)
            for place, heading in _severities(found)
        }
        by = " by total uncertainty" if "/" in metric else ""
        made.append(metric_table(named, columns, f"{title}: {stem}{by} against severity"))
    return [*made, _corruption_table(named, dataset, found)]


def shift_twins(results: list[Result], dataset: str) -> tables.Table | None:
    """S2D against its plain twin under shift, paired by seed; None without two seeds of both."""
    keys = [f"{dataset}/{name}" for name in ("accuracy", "nll", "ece", "error_auroc/total")]
    keys.append(f"{dataset}/shift_correlation/total")
    return twins_table(repeated(results), keys) if repeated(results) else None


def draw_severities(
    named: Named, dataset: str, folder: str | pathlib.Path
) -> list[tuple[pathlib.Path, str, str]]:
    """Curves against severity: performance, and the mean of each uncertainty.

    Args:
        named: the models.
        dataset: one of `dataset_names(named)`.
        folder: where the PNG files go.

    Returns:
        For each figure its file, a heading, and what it shows.
    """
    folder, places = pathlib.Path(folder), _severities(_conditions(named, dataset))
    shown = ("accuracy", "nll", "ece", "error_auroc/total")
    performance = {METRICS[name.split("/")[0]].title: name for name in shown}
    means = {LONG_NAMES[name]: f"uncertainty/{name}" for name in UNCERTAINTIES[1:]}
    about = f"Mean over the main corruptions of {dataset_title(dataset)}; 0 is the clean test set."
    figures = (
        (performance, "performance", "Performance against severity", " AUROC by total."),
        (means, "uncertainty", "Uncertainty against severity", " In nats."),
    )
    return [
        (
            _curves(named, dataset, places, chosen, folder / f"shift_{file}_{dataset}.png"),
            heading,
            about + more,
        )
        for chosen, file, heading, more in figures
    ]


def of_group(
    results: list[Result], folder: str | pathlib.Path
) -> tuple[list[tuple[pathlib.Path, str, str]], list[tables.Table]]:
    """Figures and tables of those of the results that were evaluated under shift."""
    shifted = with_shift(results)
    named, drawn, made = by_title(shifted), [], []
    for dataset in dataset_names(named):
        drawn += draw_severities(named, dataset, folder)
        made += [*shift_tables(named, dataset), shift_twins(shifted, dataset)]
    return drawn, [table for table in made if table is not None]


def _conditions(named, dataset):
    """`(corruption, severity)` of all conditions that any model has."""
    found: dict[tuple[str, int], None] = {}
    for seeds in named.values():
        for key in (key for metrics in seeds for key in metrics):
            stem, _, metric = key.partition("/")
            corruption, _, level = stem.removeprefix(f"{dataset}.").rpartition("_")
            if metric == "accuracy" and stem.startswith(f"{dataset}.") and corruption:
                found[corruption, int(level)] = None
    return [pair for pair in found if pair[0] != "severity"]


def _severities(conditions):
    """`(stem of the key, heading)` of the clean test set and each severity."""
    levels = sorted({level for _, level in conditions})
    return [("clean", "0"), *((f"severity_{level}", str(level)) for level in levels)]


def _corruption_table(named, dataset, conditions):
    corruptions = dict.fromkeys(corruption for corruption, _ in conditions)
    rows = []
    for corruption in corruptions:
        keys = [f"{dataset}.{c}_{level}/accuracy" for c, level in conditions if c == corruption]
        row = [corruption.replace("_", " ")]
        for seeds in named.values():
            values = [m[key] for m in seeds for key in keys if key in m]
            row.append(format_value(keys[0], float(np.mean(values))) if values else "")
        rows.append(row)
    caption = f"{dataset_title(dataset)}: accuracy by corruption, mean over severities and seeds"
    return tables.make(caption, ["Corruption", *named], [rows])


def _curves(named, dataset, places, panels, path):
    from s2d_tf.evaluation import drawing

    with drawing.frame(path, (1, len(panels)), (2.3, 2.2)) as axes:
        for axis, (title, metric) in zip(axes[0], panels.items(), strict=True):
            scale = METRICS[metric.split("/")[0]].scale
            for index, seeds in enumerate(named.values()):
                keys = [f"{dataset}.{place}/{metric}" for place, _ in places]
                points = [
                    (int(heading), scale * np.mean([m[key] for m in seeds if key in m]))
                    for key, (_, heading) in zip(keys, places, strict=True)
                    if any(key in m for m in seeds)
                ]
                if points:
                    axis.plot(*zip(*points, strict=True), marker=".", **drawing.line_style(index))
            axis.set_title(title, fontsize=9)
            axis.set_xlabel("Severity")
            axis.grid(color="#EEEEEE", linewidth=0.8)
        drawing.legend(axes, list(named), lines=True)
    return path
