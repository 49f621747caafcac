"""The report's own tables: what was run, and what goes beyond the paper."""

from s2d_tf.evaluation import statistics, tables
from s2d_tf.evaluation.names import UNCERTAINTIES, dataset_title
from s2d_tf.evaluation.overview import NAMES, metric_table, uncertainty_keys
from s2d_tf.evaluation.results import by_variant
from s2d_tf.paper import claims
from s2d_tf.paper.layout import format_value

_MAX_SEEDS_SHOWN = 8


def runs_table(results):
    """Which runs the report is made from."""
    rows, grouped = [], {}
    for result in results:
        key = result.recipe.architecture, result.trained_on, result.title, result.split
        grouped.setdefault(key, []).append(result)
    for (architecture, trained_on, title, split), part in grouped.items():
        seeds = sorted(r.seed for r in part)
        shown = ", ".join(map(str, seeds[:_MAX_SEEDS_SHOWN]))
        shown += ", ..." if len(seeds) > _MAX_SEEDS_SHOWN else ""
        rows.append([architecture, trained_on, title, split, shown])
    return tables.make("", ["Network", "Data", "Method", "Trained on", "Seeds"], [rows], stub=5)


def named(results):
    """`{title: [metrics of each seed]}` in the order of the paper."""
    return {part[0].title: [r.metrics for r in part] for part in by_variant(results).values()}


def calibration_table(results):
    """Raw and temperature-scaled figures side by side."""
    dataset = results[0].recipe.source_dataset
    keys = {("Raw", NAMES[name]): f"{dataset}/{name}" for name in ("nll", "ece", "adaptive_ece")}
    keys["Raw", NAMES["brier"]] = f"{dataset}/brier"
    keys["Temperature-scaled", "T"] = f"{dataset}/temperature"
    for name in ("nll", "ece", "adaptive_ece", "brier"):
        keys["Temperature-scaled", NAMES[name]] = f"{dataset}/scaled_{name}"
    fitted = {r.metrics.get("run/temperature_fitted_on") for r in results} - {None}
    note = (
        "The temperature is fitted on the validation split, which was kept out of training."
        if fitted == {"validation"}
        else "Runs that were trained on all images have no validation split left: each half of the "
        "test split is scaled by the temperature of the other half."
    )
    caption = f"Calibration on {dataset_title(dataset)}"
    return metric_table(named(results), keys, caption, [note])


def rejection_table(results):
    """What is gained by refusing to answer, by each uncertainty."""
    dataset = results[0].recipe.source_dataset
    keys = {
        **uncertainty_keys(dataset, "aurc", "%AURC"),
        **uncertainty_keys(dataset, "augrc", "%AUGRC"),
        **uncertainty_keys(dataset, "risk_at_80_coverage", "%errors, 80% answered"),
    }
    caption = f"Rejecting the most doubtful images of {dataset_title(dataset)}"
    return metric_table(named(results), keys, caption, ["Smaller is better in every column."])


def false_alarm_table(results, ood):
    """FPR at 95% recall, OOD positive."""
    keys = {}
    for name in ood:
        keys |= uncertainty_keys(name, "fpr_at_95_recall", dataset_title(name))
    caption = "Known images flagged (%) where 95% of the OOD images are found"
    return metric_table(named(results), keys, caption, ["Smaller is better."])


def cost_table(results):
    """Parameters, and time per image relative to the individual network."""
    rows = []
    for part in by_variant(results).values():
        if "cost/parameters" in part[0].metrics:
            own = [r.metrics for r in part]
            ratios = [m["cost/relative_inference_time"] for m in own]
            rows.append(
                [
                    part[0].title,
                    f"{own[0]['cost/parameters']:,}",
                    f"{statistics.mean_and_two_std(ratios)[0]:.2f} ×",
                ]
            )
    columns = ["Model", "Parameters", "Time per image"]
    note = "Time as a multiple of the individual network's, measured in turns with it."
    return tables.make("Cost of a prediction", columns, [rows], footnotes=[note])


def twins_table(results):
    """S2D against its plain twin, paired by seed; None where no pair shares one."""
    variants = by_variant(results)
    dataset = results[0].recipe.source_dataset
    blocks = []
    for plain, s2d in claims.TWINS.items():
        first = {r.seed: r.metrics for r in variants.get(s2d, ())}
        second = {r.seed: r.metrics for r in variants.get(plain, ())}
        seeds = sorted(first.keys() & second.keys())
        rows = []
        for key in _twin_keys(dataset, results):
            pairs = [(first[s][key], second[s][key]) for s in seeds if key in second[s]]
            if pairs and key in first[seeds[0]]:
                compared = statistics.compare_over_seeds(*zip(*pairs, strict=True))
                rows.append(_twin_row(variants[s2d][0].title, key, compared))
        blocks += [rows] if rows else []
    columns = ["Model", "Metric", "S2D minus plain", "95% interval", "Seeds better for S2D"]
    note = (
        "Paired by seed; Student's interval for the mean difference, per cent points but for NLL."
    )
    caption = "S2D against its plain twin"
    return tables.make(caption, columns, blocks, stub=2, footnotes=[note]) if blocks else None


def intervals_table(results):
    """Bootstrap intervals of the runs that have them, or None."""
    dataset = results[0].recipe.source_dataset
    rows = []
    for result in (r for part in by_variant(results).values() for r in part if r.intervals):
        cells = [
            _interval(f"{dataset}/{name}", result.intervals) for name in ("accuracy", "nll", "ece")
        ]
        rows.append([f"{result.title}, seed {result.seed}", *cells])
    columns = ["Run", "Acc", "NLL", "%ECE"]
    note = "95% bootstrap intervals over the test examples of one trained model."
    caption = f"How sure the figures of single runs are: {dataset_title(dataset)}"
    return tables.make(caption, columns, [rows], footnotes=[note]) if rows else None


def _interval(key, intervals):
    if key not in intervals:
        return ""
    low, estimate, high = (
        format_value(key, intervals[key][part]) for part in ("low", "estimate", "high")
    )
    return f"{estimate} [{low}, {high}]"


def _twin_keys(dataset, results):
    keys = [f"{dataset}/{name}" for name in ("accuracy", "nll", "ece")]
    for name in results[0].recipe.out_of_distribution:
        keys += [f"{name}/auroc/{uncertainty}" for uncertainty in UNCERTAINTIES[:2]]
    return keys


def _twin_row(title, key, compared):
    dataset, metric, *uncertainty = key.split("/")
    scale, decimals = (1.0, 3) if metric == "nll" else (100.0, 2)
    name = " ".join([NAMES.get(metric, f"%{metric.upper()}"), *uncertainty])
    interval = ""
    if compared.low is not None:
        interval = f"{scale * compared.low:+.{decimals}f} to {scale * compared.high:+.{decimals}f}"
    better = compared.negative if metric in ("nll", "ece") else compared.positive
    return [
        title,
        f"{dataset_title(dataset)} {name}",
        f"{scale * compared.mean_difference:+.{decimals}f}",
        interval,
        f"{better} of {compared.num_pairs}",
    ]
