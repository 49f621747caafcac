"""A table of a few models beside each other: how good, and how well they detect."""

from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import LOWER_IS_BETTER, SHORT_NAMES, UNCERTAINTIES


def overview_table(results, dataset, ood=(), caption=""):
    """Accuracy, NLL and ECE, then AUROC and AUPR by each uncertainty for each OOD set.

    Args:
        results: `{label: flat metrics}`.
        dataset: name of the data set whose classes the models know.
        ood: names of out-of-distribution data sets.
        caption: heading.

    Returns:
        `tables.Table`; the best of each column is marked, what a model has not is blank.
    """
    keys = {
        (dataset, "Acc"): f"{dataset}/accuracy",
        (dataset, "NLL"): f"{dataset}/nll",
        (dataset, "%ECE"): f"{dataset}/ece",
    }
    for name in ood:
        for ranking in ("auroc", "aupr"):
            for uncertainty in UNCERTAINTIES:
                group = f"{name} %{ranking.upper()}"
                keys[group, SHORT_NAMES[uncertainty]] = f"{name}/{ranking}/{uncertainty}"
    columns = [("", "Model"), *keys]
    best = {}
    for key in keys.values():
        values = [metrics[key] for metrics in results.values() if key in metrics]
        if len(values) > 1:
            best[key] = (min if key.split("/")[1] in LOWER_IS_BETTER else max)(values)
    rows = [
        [label, *(_cell(metrics.get(key), key, best) for key in keys.values())]
        for label, metrics in results.items()
    ]
    return tables.make(caption, columns, [rows])


def _cell(value, key, best):
    if value is None:
        return tables.Cell()
    metric = key.split("/")[1]
    text = f"{value:.3f}" if metric == "nll" else f"{100 * value:.1f}"
    if metric == "ece":
        text = f"{100 * value:.2f}"
    return tables.Cell(text, best=best.get(key) == value)
