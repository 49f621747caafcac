"""The paper's tables as typed records, so that comparisons are generated and never typed.

Everything comes from `paper_tables.toml`; each cell knows the table, row and column it was printed
in, which method it is about and which metric of `evaluate` it corresponds to.
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
    rows = {name: r for r in table(number).rows for name in (r.name, r.variant) if name}
    cells = _pick(rows, row, f"row of table {number}").cells
    metrics = [cell.column.metric for cell in cells]
    titles = {cell.column.title: cell for cell in cells}
    titles |= {m: c for m, c in zip(metrics, cells, strict=True) if m and metrics.count(m) == 1}
    return _pick(titles, column, f"column of table {number}")


def numbers():
    """Every cell that holds a number."""
    return [cell for found in tables() for cell in found.cells() if not cell.blank]


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
    for cell in numbers():
        used = tables_used is None or cell.table in tables_used
        same = cell.architecture == architecture and cell.column.trained_on in (trained_on, None)
        if used and same and cell.column.metric:
            metrics = found.setdefault(cell.variant, {})
            metrics.setdefault(cell.column.metric, cell.metric_value)
    return {method: [metrics] for method, metrics in found.items()}


def _pick(known, name, what):
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown {what}: {name!r}.{hint} Known: {', '.join(known)}.")
