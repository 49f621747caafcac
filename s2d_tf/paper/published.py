"""The paper's tables as typed records, so that comparisons are generated and never typed.

Everything comes from `paper_tables.toml`; each cell knows the table, row and column it was printed
in, which zoo entry it is about and which metric of `evaluate` it corresponds to.
"""

import difflib
import functools
import tomllib
from importlib import resources

from s2d_tf.paper.records import METHODS, Cell, Column, Row, Table, parse_table

__all__ = [
    "METHODS",
    "Cell",
    "Column",
    "Row",
    "Table",
    "lookup",
    "numbers",
    "results",
    "table",
    "tables",
    "value",
    "variant",
]

# The number of members where the row does not say it (section 5 of the paper).
DEFAULT_MEMBERS = 5


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
    names = {}
    for candidate in found.rows:
        names[candidate.name] = candidate
        if candidate.method:
            names[variant(candidate.method, candidate.members)] = candidate
    cells = _pick(names, row, f"row of table {number}").cells
    metrics = [cell.metric for cell in cells]
    titles = {cell.column: cell for cell in cells}
    titles.update({c.metric: c for c in cells if c.metric and metrics.count(c.metric) == 1})
    return _pick(titles, column, f"column of table {number}")


def numbers():
    """Every cell that holds a number."""
    return [cell for found in tables() for cell in found.cells() if not cell.blank]


def lookup(architecture, method, trained_on, metric, members=None):
    """The published cell for a result of ours, or None where the paper has none.

    A number that the paper prints twice (ensembles of 5 again among the ensemble sizes) is taken
    from the first table. Costs do not depend on `trained_on`.
    """
    name = variant(method, members)
    found = _by_result()
    for data in (trained_on, None):
        if (architecture, name, data, metric) in found:
            return found[architecture, name, data, metric]
    return None


def results(architecture, trained_on="cifar100", tables_used=None):
    """The paper's own figures in the form of ours: `{method: [metrics]}`, as `claims` takes them.

    Args:
        architecture: `"densenet_bc_100_12"` or `"wrn_28_10"`.
        trained_on: `"cifar100"` or `"cifar100_plus"`.
        tables_used: numbers of the tables to take, or None for all.
    """
    found = {}
    for cell in numbers():
        if tables_used is not None and cell.table not in tables_used:
            continue
        if not cell.metric or cell.architecture != architecture:
            continue
        if cell.trained_on in (trained_on, None):
            metrics = found.setdefault(variant(cell.method, cell.members), {})
            metrics.setdefault(cell.metric, cell.metric_value)
    return {method: [metrics] for method, metrics in found.items()}


def variant(method, members=None):
    """`method`, with the number of members where it is not the paper's usual 5: `ensemble_10`."""
    return method if members in (None, DEFAULT_MEMBERS) else f"{method}_{members}"


@functools.cache
def _by_result():
    found = {}
    for cell in numbers():
        if cell.metric:
            name = variant(cell.method, cell.members)
            found.setdefault((cell.architecture, name, cell.trained_on, cell.metric), cell)
    return found


def _pick(known, name, what):
    if name in known:
        return known[name]
    near = difflib.get_close_matches(str(name), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"unknown {what}: {name!r}.{hint} Known: {', '.join(known)}.")
