"""The fixtures of runs, and the paper's own numbers in the form of ours."""

from tests.evaluation.conftest import *  # noqa: F403


def paper_results(architecture, trained_on="cifar100", tables_used=None):
    """`{method: [metrics]}` of the paper, as `claims` takes them.

    A number that the paper prints twice (ensembles of 5 again among the ensemble sizes) is taken
    from the first table; each stands for two equal seeds. Costs do not depend on `trained_on`.
    """
    from s2d_tf.evaluation import names
    from s2d_tf.trainers.studies import paper_tables

    found = {}
    for each in paper_tables.published_tables():
        used = tables_used is None or each.number in tables_used
        for row, column, cell in each.cells() if used and each.architecture == architecture else ():
            same = column.metric and column.trained_on in (trained_on, None)
            if same and cell.value is not None:
                metrics = found.setdefault(row.variant, {})
                metrics.setdefault(column.metric, cell.value / names.metric(column.metric).scale)
    return {method: [metrics, metrics] for method, metrics in found.items()}
