"""Small tables for people: one record that prints as text, Markdown or CSV; tables of metrics."""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from s2d_tf.evaluation.intervals import mean_and_two_std
from s2d_tf.evaluation.names import (
    METRICS,
    SHORT_NAMES,
    UNCERTAINTIES,
    dataset_title,
    format_difference,
    format_value,
    metric,
    metric_title,
)


@dataclasses.dataclass(frozen=True)
class Cell:
    """A printed value. `best` is best in its column, `best_overall` best in the whole table."""

    text: str = ""
    best: bool = False
    best_overall: bool = False
    note: str = ""
    """Small print that belongs to the cell, such as a published number."""


@dataclasses.dataclass(frozen=True)
class Table:
    """A caption, columns `(group, name)`, and blocks of rows; the first `stub` columns are names.

    `footnotes` are sentences printed below.
    """

    caption: str
    columns: tuple[tuple[str, str], ...]
    blocks: tuple[tuple[tuple[Cell, ...], ...], ...]
    stub: int = 1
    footnotes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[tuple[Cell, ...]]:
        return [row for block in self.blocks for row in block]

    @property
    def titles(self) -> list[str]:
        return [f"{group} {name}".strip() for group, name in self.columns]

    @property
    def names(self) -> list[str]:
        return [name for _, name in self.columns]

    @property
    def groups(self) -> list[tuple[str, int]]:
        """`(group, number of neighboring columns that share it)`; empty where no column has one."""
        if not any(group for group, _ in self.columns):
            return []
        runs = itertools.groupby(self.columns, lambda column: column[0])
        return [(group, len(list(columns))) for group, columns in runs]


def make(
    caption: str,
    columns: Iterable[Any],
    blocks: Iterable[Iterable[Iterable[Any]]],
    stub: int = 1,
    footnotes: Iterable[str] = (),
) -> Table:
    """A `Table` from plain values: columns as strings or pairs, cells as strings or `Cell`s."""
    named = tuple(("", c) if isinstance(c, str) else (c[0], c[1]) for c in columns)
    cells = tuple(
        tuple(tuple(c if isinstance(c, Cell) else Cell(str(c)) for c in row) for row in block)
        for block in blocks
    )
    return Table(caption, named, cells, stub, tuple(footnotes))


def render(table: Table, form: str = "text") -> str:
    """The table as a string in one of `FORMATS`."""
    if form not in FORMATS:
        raise ValueError(f"form: expected one of {', '.join(FORMATS)}, received {form!r}.")
    return FORMATS[form](table)


def mark(
    table: Table, best: str, overall: str, note: str = "{} ({})", escape: Callable = str
) -> list[list[list[str]]]:
    """The texts of all blocks, with the best cells and the notes written by these patterns."""

    def write(cell):
        pattern = overall if cell.best_overall else best if cell.best else "{}"
        text = pattern.format(escape(cell.text))
        return note.format(text, escape(cell.note)) if cell.note else text

    return [[list(map(write, row)) for row in block] for block in table.blocks]


def metric_table(
    results: dict[Any, Any],
    keys: dict[str, tuple[str, str]],
    caption: str = "",
    footnotes: Sequence[str] = (),
    stub: Sequence[str] = ("Model",),
) -> Table:
    """One row per model, one column per metric; the best of each column is marked.

    Where columns show one metric by several uncertainties, so is the best of them all. Rows without
    any of the metrics are left out; a new first name begins a new block of rows with two names.

    Args:
        results: `{label: flat metrics}`, or `{label: [flat metrics of each seed]}`. A label is a
            string, or a tuple of as many as `stub` has.
        keys: `{metric key: (group, column title)}`.
        caption, footnotes: text around the table.
        stub: titles of the columns with the names.

    Example:

    >>> metrics = {"mine": {"digits/nll": 0.5}, "yours": [{"digits/nll": 0.3}, {"digits/nll": 0.5}]}
    >>> table = evaluation.metric_table(metrics, {"digits/nll": ("", "NLL")})
    >>> [[cell.text for cell in row] for row in table.rows]
    [['mine', '0.50'], ['yours', '0.40 ± 0.28']]
    """
    seeds = {label: [m] if isinstance(m, dict) else m for label, m in results.items()}
    found: dict[str, dict] = {}
    for key in keys:
        values = {label: [m[key] for m in own if key in m] for label, own in seeds.items()}
        found[key] = {label: mean_and_two_std(own) for label, own in values.items() if own}
    rows: dict[Any, list] = {}
    for label in results:
        if len(stub) == 1 or any(label in own for own in found.values()):
            rows[label] = [label] if isinstance(label, str) else [*label]
    for key in keys:
        best = best_of(key, {label: mean for label, (mean, _) in found[key].items()})
        # `dataset/metric/uncertainty`: the same metric by other uncertainties
        stem = key.rpartition("/")[0]
        rivals = [k for k in keys if k.count("/") == 2 and k.rpartition("/")[0] == stem]
        means = {(k, label): mean for k in rivals for label, (mean, _) in found[k].items()}
        overall = best_of(key, means) if len(rivals) > 1 else ()
        for label, row in rows.items():
            text = format_value(key, *found[key][label]) if label in found[key] else ""
            row.append(Cell(text, label in best, (key, label) in overall))
    columns = [*(("", name) for name in stub), *keys.values()]
    parts = itertools.groupby(rows.values(), lambda row: row[0] if len(stub) > 1 else None)
    return make(caption, columns, [list(part) for _, part in parts], len(stub), footnotes)


def overview_table(
    results: dict[str, Any],
    dataset: str,
    ood: Sequence[str] = (),
    caption: str = "",
    footnotes: Sequence[str] = (),
    group: str | None = None,
) -> Table:
    """Accuracy, NLL and ECE, then AUROC and AUPR by each uncertainty for each OOD dataset.

    Args:
        results: as for `metric_table`.
        dataset: name of the dataset whose classes the models know.
        ood: names of out-of-distribution datasets.
        caption: heading.
        footnotes: sentences below.
        group: heading over the columns of an OOD dataset, its title by default.

    Returns:
        `tables.Table`; the best of each column is marked, what a model has not is blank.

    Example:

    >>> metrics = {"digits/accuracy": 0.9, "digits/nll": 0.3, "digits/ece": 0.02}
    >>> table = evaluation.overview_table({"mine": metrics}, "digits")
    >>> [cell.text for cell in table.rows[0]]
    ['mine', '90.0', '0.30', '2.00']
    """
    keys = metric_keys(dataset, ("accuracy", "nll", "ece"), dataset_title(dataset))
    headings = {
        f"{name}/{ranking}": f"{group or dataset_title(name)} {METRICS[ranking].title}"
        for name in ood
        for ranking in ("auroc", "aupr")
    }
    return metric_table(results, keys | uncertainty_keys(headings), caption, footnotes)


def difference_table(
    found: dict[str, dict], caption: str, num_resamples: int, notes: Sequence[str] = ()
) -> Table:
    """Table of differences `{key: {"estimate", "low", "high"}}`, first model minus second."""
    blocks: dict[str, list] = {}
    for key, value in found.items():
        low, high = (value["low"], value["high"])
        if metric(key).best is min:
            low, high = -high, -low
        verdict = "better" if low > 0 else "worse" if high < 0 else "no clear difference"
        dataset = dataset_title(key.split("/")[0])
        numbers = [format_difference(key, value[part]) for part in ("estimate", "low", "high")]
        blocks.setdefault(dataset, []).append([dataset, metric_title(key), *numbers, verdict])
    return make(
        caption,
        ["Data", "Metric", "Difference", "95% from", "to", "The first is"],
        list(blocks.values()),
        stub=2,
        footnotes=[
            f"{num_resamples:,} resamples of the test examples, in pairs; percentage points except "
            "for NLL. Variation over seeds is not included.",
            *notes,
        ],
    )


def metric_keys(
    dataset: str, metrics: Iterable[str], group: str = ""
) -> dict[str, tuple[str, str]]:
    """`{key: (group, title)}` of some metrics of a dataset."""
    keys = [f"{dataset}/{name}" for name in metrics]
    return {key: (group, metric(key).title) for key in keys}


def uncertainty_keys(groups: dict[str, str]) -> dict[str, tuple[str, str]]:
    """`{key: (group, short name)}` for every uncertainty, from `{dataset/metric: group}`."""
    return {
        f"{stem}/{uncertainty}": (group, SHORT_NAMES[uncertainty])
        for stem, group in groups.items()
        for uncertainty in UNCERTAINTIES
    }


def best_of(key: str, means: dict[Any, float]) -> set:
    """Which of `{label: mean}` are best, as printed; none where there is nothing to compare."""
    choose = metric(key).best
    if len(means) < 2 or choose is None:
        return set()
    best = format_value(key, choose(means.values()))
    return {label for label, mean in means.items() if format_value(key, mean) == best}


def _markdown(table):
    rules = ["---"] * table.stub + ["---:"] * (len(table.columns) - table.stub)
    blocks = mark(table, "**{}**", "***{}***", escape=lambda text: text.replace("|", r"\|"))
    lines = [f"**{table.caption}**", ""] if table.caption else []
    rows = [table.titles, rules, *itertools.chain(*blocks)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, *(f"\n{note}" for note in table.footnotes)]) + "\n"


def _csv(table):
    """Numbers without marks and notes."""
    rows = [[cell.text for cell in row] for row in table.rows]
    file = io.StringIO()
    csv.writer(file, lineterminator="\n").writerows([table.titles, *rows])
    return file.getvalue()


def _text(table):
    blocks = mark(table, "{}*", "{}**")
    columns = zip(table.names, *itertools.chain(*blocks), strict=True)
    widths = [max(map(len, column)) for column in columns]
    heads, start = [], 0
    for group, count in table.groups:
        width = sum(widths[start : start + count]) + 2 * (count - 1)
        widths[start + count - 1] += max(0, len(group) - width)  # A long group widens its last.
        heads.append(group.center(max(width, len(group))))
        start += count

    def line(cells):
        aligns = "<" * table.stub + ">" * len(widths)
        placed = zip(cells, aligns, widths, strict=False)
        return "  ".join(f"{text:{align}{width}}" for text, align, width in placed).rstrip()

    lines = [table.caption, ""] if table.caption else []
    lines += ["  ".join(heads).rstrip()] if heads else []
    lines.append(line(table.names))
    for block in blocks:
        lines += ["-" * (sum(widths) + 2 * (len(widths) - 1)), *map(line, block)]
    return "\n".join([*lines, *(["", *table.footnotes] if table.footnotes else [])]) + "\n"


FORMATS = {"text": _text, "markdown": _markdown, "csv": _csv}
