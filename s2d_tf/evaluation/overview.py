"""A table of a few models beside each other: how good, and how well they detect."""

from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import LOWER_IS_BETTER, SHORT_NAMES, UNCERTAINTIES, dataset_title
from s2d_tf.evaluation.statistics import mean_and_two_std
from s2d_tf.paper.layout import format_value

NAMES = {
    "accuracy": "Acc",
    "nll": "NLL",
    "ece": "%ECE",
    "adaptive_ece": "%adaptive ECE",
    "brier": "%Brier",
    "temperature": "T",
    "scaled_nll": "NLL scaled",
    "scaled_ece": "%ECE scaled",
    "scaled_brier": "%Brier scaled",
}


def overview_table(results, dataset, ood=(), caption="", footnotes=(), group=None):
    """Accuracy, NLL and ECE, then AUROC and AUPR by each uncertainty for each OOD set.

    Args:
        results: `{label: flat metrics}`, or `{label: [flat metrics of each seed]}`.
        dataset: name of the data set whose classes the models know.
        ood: names of out-of-distribution data sets.
        caption: heading.
        footnotes: sentences below.
        group: heading over the columns of an OOD set, its title by default.

    Returns:
        `tables.Table`; the best of each column is marked, what a model has not is blank.
    """
    title = dataset_title(dataset)
    keys = {(title, NAMES[name]): f"{dataset}/{name}" for name in ("accuracy", "nll", "ece")}
    for name in ood:
        heading = group or dataset_title(name)
        for ranking in ("auroc", "aupr"):
            keys |= uncertainty_keys(name, ranking, f"{heading} %{ranking.upper()}")
    return metric_table(results, keys, caption, footnotes)


def uncertainty_keys(dataset, metric, group):
    """`{(group, short name): key}` of one metric for every uncertainty."""
    return {(group, SHORT_NAMES[u]): f"{dataset}/{metric}/{u}" for u in UNCERTAINTIES}


def metric_table(results, keys, caption="", footnotes=()):
    """One row per model, one column per metric; the best of each column is marked.

    Args:
        results: as for `overview_table`.
        keys: `{(group, name): metric key}`.
        caption, footnotes: text around the table.
    """
    values = {
        label: {key: _values(seeds, key) for key in keys.values()}
        for label, seeds in results.items()
    }
    best = {}
    for key in keys.values():
        held = [mean_and_two_std(v[key])[0] for v in values.values() if v[key]]
        metric = key.split("/")[1].removeprefix("scaled_")
        if len(held) > 1 and metric != "temperature":
            chosen = (min if metric in LOWER_IS_BETTER else max)(held)
            best[key] = format_value(key, chosen)
    rows = [
        [label, *(_cell(v[key], key, best) for key in keys.values())] for label, v in values.items()
    ]
    return tables.make(caption, [("", "Model"), *keys], [rows], footnotes=footnotes)


def _values(seeds, key):
    seeds = [seeds] if isinstance(seeds, dict) else seeds
    return [metrics[key] for metrics in seeds if key in metrics]


def _cell(values, key, best):
    if not values:
        return tables.Cell()
    mean, spread = mean_and_two_std(values)
    text = format_value(key, mean, spread)
    return tables.Cell(text, best=best.get(key) == format_value(key, mean))
