"""Which tables a set of runs can fill."""

from s2d_tf.evaluation import paper, paper_layout
from s2d_tf.evaluation.overview import overview_table
from s2d_tf.evaluation.results import by_variant, groups


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
        own = paper.table(number).architecture
        chosen = [own] if own in architectures else architectures
        return [paper_layout.paper_table(number, results, name) for name in chosen]
    made = []
    for architecture in architectures:
        own = [r for r in results if r.recipe.architecture == architecture]
        if any(r.trained_on in paper_layout.TRAINED_ON for r in own):
            filled = (
                paper_layout.paper_table(n, results, architecture)
                for n in paper_layout.numbers_for(architecture)
            )
            made += [table for table in filled if paper_layout.has_figures(table)]
    for (architecture, trained_on), own in groups(results).items():
        if trained_on not in paper_layout.TRAINED_ON:
            made.append(group_overview(own, f"{architecture} on {trained_on}"))
    return made


def group_overview(results, caption):
    """The overview of runs of one network on one data set."""
    recipe = results[0].recipe
    measured = {key.split("/")[0] for r in results for key in r.metrics if "/auroc/" in key}
    ood = [name for name in recipe.out_of_distribution if name in measured]
    variants = by_variant(results)
    named = {part[0].title: [r.metrics for r in part] for part in variants.values()}
    seeds = sorted({len(part) for part in variants.values()})
    notes = [f"Seeds: {', '.join(f'{p[0].title} {len(p)}' for p in variants.values())}."]
    if seeds[-1] > 1:
        notes[0] += " ± is two standard deviations over seeds."
    return overview_table(named, recipe.source_dataset, ood, caption, notes)
