"""Which tables a set of runs can fill."""

from s2d_tf.evaluation.names import dataset_title
from s2d_tf.evaluation.overview import NAMES, metric_table, uncertainty_keys
from s2d_tf.evaluation.results import by_variant, groups
from s2d_tf.paper import layout, published


def tables_of(results, number=None):
    """The paper's tables for CIFAR-100 runs, and an overview for runs on other data.

    Args:
        results: `results.Result`s.
        number: only the table with this number, for every network among the runs; None makes all
            tables in which some cell is ours.

    Returns:
        List of `tables.Table`.
    """
    architectures = list(dict.fromkeys(r.recipe.architecture for r in results))
    if number is not None:
        own = published.table(number).architecture
        chosen = [own] if own in architectures else architectures
        return [layout.paper_table(number, results, name) for name in chosen]
    made = []
    for architecture in architectures:
        own = [r for r in results if r.recipe.architecture == architecture]
        if any(r.trained_on in layout.TRAINED_ON for r in own):
            filled = (
                layout.paper_table(n, results, architecture)
                for n in layout.numbers_for(architecture)
            )
            made += [table for table in filled if layout.has_figures(table)]
    for (architecture, trained_on), own in groups(results).items():
        if trained_on not in layout.TRAINED_ON:
            made += overview(own, f"{architecture} on {trained_on}")
    return made


def overview(results, caption):
    """Runs of one network on one data set: performance, then detection of each OOD set."""
    recipe, variants = results[0].recipe, by_variant(results)
    named = {part[0].title: [r.metrics for r in part] for part in variants.values()}
    counts = "; ".join(f"{part[0].title}: {len(part)}" for part in variants.values())
    notes = [f"Seeds of {counts}."]
    if any(len(part) > 1 for part in variants.values()):
        notes[0] += " ± is two standard deviations over seeds."
    dataset = recipe.source_dataset
    keys = {("", NAMES[name]): f"{dataset}/{name}" for name in ("accuracy", "nll", "ece", "brier")}
    made = [metric_table(named, keys, f"{caption}: test performance", notes)]
    for name in recipe.out_of_distribution:
        keys = {
            **uncertainty_keys(name, "auroc", "OOD %AUROC"),
            **uncertainty_keys(name, "aupr", "OOD %AUPR"),
        }
        if any(
            key in metrics for own in named.values() for metrics in own for key in keys.values()
        ):
            title = f"{caption}: OOD detection results ({dataset_title(name)})"
            made.append(metric_table(named, keys, title))
    return made
