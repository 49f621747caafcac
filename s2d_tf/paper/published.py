"""The paper's tables as typed records, so that comparisons are generated and never typed.

Everything comes from `paper_tables.toml`; each row knows which method it is about, and each column
which metric of `evaluate` it corresponds to.
"""

import difflib
import functools
import tomllib
from importlib import resources

from s2d_tf.paper.records import parse_table


@functools.cache
def tables():
    """All tables of the paper, in the order of their numbers."""
    text = resources.files("s2d_tf.paper").joinpath("paper_tables.toml").read_text("utf-8")
    return tuple(parse_table(data) for data in tomllib.loads(text)["tables"])


def table(number):
    """The table with this number in the paper."""
    for candidate in tables():
        if candidate.number == number:
            return candidate
    raise ValueError(
        f"the paper has no table {number!r}; its tables are numbered 1 to {len(tables())}."
    )


def value(number, row, column):
    """The cell of table `number` in `row` and `column`.

    Args:
        number: number of the table.
        row: the printed name (`"S2D Individual"`, `"Deep 10"`) or our method (`"s2d"`,
            `"ensemble_10"`).
        column: the printed title (`"C100+ NLL"`, `"OOD %AUROC KU"`) or, where only one column
            has it, the metric's key (`"svhn_cropped/auroc/knowledge"`).
    """
    found = table(number)
    rows = {name: r for r in found.rows for name in (r.name, r.variant) if name}
    cells = _pick(rows, row, f"row of table {number}").cells
    metrics = [column.metric for column in found.columns]
    titles = {column.title: cell for column, cell in zip(found.columns, cells, strict=True)}
    titles |= {m: c for m, c in zip(metrics, cells, strict=True) if m and metrics.count(m) == 1}
    return _pick(titles, column, f"column of table {number}")


def results(architecture, trained_on="cifar100", tables_used=None):
    """The paper's own numbers in the form of ours: `{method: [metrics]}`, as `claims` takes them.

    A number that the paper prints twice (ensembles of 5 again among the ensemble sizes) is taken
    from the first table. Costs do not depend on `trained_on`.

    Args:
        architecture: `"densenet_bc_100_12"` or `"wrn_28_10"`.
        trained_on: `"cifar100"` or `"cifar100_plus"`.
        tables_used: numbers of the tables to take, or None for all.
    """
    found = {}
    for each in tables():
        used = tables_used is None or each.number in tables_used
        for row, column, cell in each.cells() if used and each.architecture == architecture else ():
            same = column.metric and column.trained_on in (trained_on, None)
            if same and cell.value is not None:
                metrics = found.setdefault(row.variant, {})
                metrics.setdefault(column.metric, cell.value * column.scale)
    return {method: [metrics] for method, metrics in found.items()}


def _pick(known, name, what):
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown {what}: {name!r}.{hint} Known: {', '.join(known)}.")
