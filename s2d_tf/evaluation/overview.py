"""Tables of several models: one row per model, one column per metric."""

from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import (
    METRICS,
    SHORT_NAMES,
    UNCERTAINTIES,
    dataset_title,
    format_value,
    metric,
)
from s2d_tf.evaluation.results import by_title
from s2d_tf.evaluation.statistics import mean_and_two_std


def overview_table(results, dataset, ood=(), caption="", footnotes=(), group=None):
    """Accuracy, NLL and ECE, then AUROC and AUPR by each uncertainty for each OOD dataset.

    Args:
        results: `{label: flat metrics}`, or `{label: [flat metrics of each seed]}`.
        dataset: name of the dataset whose classes the models know.
        ood: names of out-of-distribution datasets.
        caption: heading.
        footnotes: sentences below.
        group: heading over the columns of an OOD dataset, its title by default.

    Returns:
        `tables.Table`; the best of each column is marked, what a model has not is blank.
    """
    keys = metric_keys(dataset, ("accuracy", "nll", "ece"), dataset_title(dataset))
    for name in ood:
        for ranking in ("auroc", "aupr"):
            heading = f"{group or dataset_title(name)} {METRICS[ranking].title}"
            keys |= uncertainty_keys(name, ranking, heading)
    return metric_table(results, keys, caption, footnotes)


def overview(results, caption):
    """Tables of runs of one network on one dataset: performance, then detection of each OOD set.

    Args:
        results: `results.Result`s.
        caption: what they have in common.
    """
    recipe, named = results[0].recipe, by_title(results)
    counts = "; ".join(f"{title}: {len(seeds)}" for title, seeds in named.items())
    notes = [f"Seeds of {counts}."]
    if any(len(seeds) > 1 for seeds in named.values()):
        notes[0] += " ± is two standard deviations over seeds."
    keys = metric_keys(recipe.source_dataset, ("accuracy", "nll", "ece", "brier"))
    made = [metric_table(named, keys, f"{caption}: test performance", notes)]
    for name in recipe.out_of_distribution:
        keys = {
            **uncertainty_keys(name, "auroc", "OOD %AUROC"),
            **uncertainty_keys(name, "aupr", "OOD %AUPR"),
        }
        if any(not keys.keys().isdisjoint(metrics) for own in named.values() for metrics in own):
            title = f"{caption}: OOD detection results ({dataset_title(name)})"
            made.append(metric_table(named, keys, title))
    return made


def metric_keys(dataset, metrics, group=""):
    """`{key: (group, title)}` of some metrics of a dataset."""
    keys = [f"{dataset}/{name}" for name in metrics]
    return {key: (group, metric(key).title) for key in keys}


def uncertainty_keys(dataset, name, group):
    """`{key: (group, short name)}` of one metric for every uncertainty."""
    return {f"{dataset}/{name}/{u}": (group, SHORT_NAMES[u]) for u in UNCERTAINTIES}


def metric_table(results, keys, caption="", footnotes=()):
    """One row per model, one column per metric; the best of each column is marked.

    Args:
        results: as for `overview_table`.
        keys: `{metric key: (group, column title)}`.
        caption, footnotes: text around the table.
    """
    seeds = {label: [m] if isinstance(m, dict) else m for label, m in results.items()}
    rows = {label: [label] for label in results}
    for key in keys:
        values = {label: [m[key] for m in own if key in m] for label, own in seeds.items()}
        found = {label: mean_and_two_std(own) for label, own in values.items() if own}
        best = best_of(key, {label: mean for label, (mean, _) in found.items()})
        for label, row in rows.items():
            text = format_value(key, *found[label]) if label in found else ""
            row.append(tables.Cell(text, best=label in best))
    columns = [("", "Model"), *keys.values()]
    return tables.make(caption, columns, [rows.values()], footnotes=footnotes)


def best_of(key, means):
    """Which of `{label: mean}` are best, as printed; none where there is nothing to compare."""
    choose = metric(key).best
    if len(means) < 2 or choose is None:
        return set()
    best = format_value(key, choose(means.values()))
    return {label for label, mean in means.items() if format_value(key, mean) == best}
