"""Small tables for people: one record, five ways to print it."""

from __future__ import annotations

import csv
import dataclasses
import html
import io
import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "×": r"$\times$",
        **{character: rf"\{character}" for character in "%_&#${}"},
    }
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
        runs = itertools.groupby(self.columns, operator.itemgetter(0))
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
    table = Table(caption, named, cells, stub, tuple(footnotes))
    for row in table.rows:
        if len(row) != len(named):
            raise ValueError(
                f"blocks: expected {len(named)} cells in each row of {caption!r}, received "
                f"{len(row)}. Add or remove cells."
            )
    return table


def render(table: Table, form: str = "text") -> str:
    """The table as a string in one of `FORMATS`."""
    if form not in FORMATS:
        raise ValueError(
            f"form: expected one of {', '.join(FORMATS)}, received {form!r}. Choose one of them."
        )
    function, escape, best, overall, note = _RENDERERS[form]

    def write(cell):
        pattern = overall if cell.best_overall else best if cell.best else "{}"
        text = pattern.format(escape(cell.text))
        return note.format(text, escape(cell.note)) if cell.note else text

    return function(table, [[list(map(write, row)) for row in block] for block in table.blocks])


def _markdown(table, blocks):
    rules = ["---"] * table.stub + ["---:"] * (len(table.columns) - table.stub)
    lines = [f"**{table.caption}**", ""] if table.caption else []
    rows = [table.titles, rules, *itertools.chain(*blocks)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([*lines, *(f"\n{note}" for note in table.footnotes)]) + "\n"


def _csv(table, _):
    """Plain numbers; the notes go into columns of their own, if there are any."""
    noted = [any(row[i].note for row in table.rows) for i in range(len(table.columns))]
    head = [Cell(title, note=f"{title} (paper)") for title in table.titles]
    file = io.StringIO()
    for row in [head, *table.rows]:
        parts = [(c.text, c.note) if has else (c.text,) for c, has in zip(row, noted, strict=True)]
        csv.writer(file, lineterminator="\n").writerow(itertools.chain(*parts))
    return file.getvalue()


def _latex(table, blocks):
    def line(cells):
        return " & ".join(cells) + r" \\"

    spans = [rf"\multicolumn{{{n}}}{{c}}{{{g.translate(_LATEX)}}}" for g, n in table.groups]
    spec = "l" * table.stub + "c" * (len(table.columns) - table.stub)
    lines = [
        *(r"\begin{table}", r"\centering", rf"\caption{{{table.caption.translate(_LATEX)}}}"),
        *(rf"\begin{{tabular}}{{{spec}}}", r"\toprule"),
        *([line(spans)] if spans else []),
        line(name.translate(_LATEX) for name in table.names),
    ]
    for block in blocks:
        lines += [r"\midrule", *map(line, block)]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {note.translate(_LATEX)}" for note in table.footnotes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _text(table, blocks):
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


def _html(table, blocks):
    def row(cells):
        heads = (f'<th scope="row">{cell}</th>' for cell in cells[: table.stub])
        return (
            f"<tr>{''.join([*heads, *(f'<td>{cell}</td>' for cell in cells[table.stub :])])}</tr>"
        )

    # What heads nothing is no head: a reader of the page aloud would name it.
    spans = "".join(
        f'<th colspan="{count}" scope="colgroup" class=group>{html.escape(group)}</th>'
        if group
        else f'<td colspan="{count}"></td>'
        for group, count in table.groups
    )
    names = "".join(
        f'<th scope="col"{" class=stub" if i < table.stub else ""}>{html.escape(name)}</th>'
        for i, name in enumerate(table.names)
    )
    heads = "".join(f"<tr>{cells}</tr>" for cells in (spans, names) if cells)
    bodies = "".join(f"<tbody>{''.join(map(row, block))}</tbody>" for block in blocks)
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.footnotes)
    caption = f"<caption>{html.escape(table.caption)}</caption>" if table.caption else ""
    body = f"<table>{caption}<thead>{heads}</thead>{bodies}</table>"
    return f'<figure class=table><div class=scroll tabindex="0">{body}</div>{notes}</figure>\n'


# How to write a table; and a cell's text, the best of a column and overall, and a note.
_RENDERERS: dict[str, tuple[Callable, Callable[[str], str], str, str, str]] = {
    "markdown": (
        _markdown,
        lambda text: text.replace("|", r"\|"),
        "**{}**",
        "***{}***",
        "{} ({})",
    ),
    "csv": (_csv, str, "{}", "{}", "{} ({})"),
    "latex": (
        _latex,
        lambda text: text.translate(_LATEX),
        r"\textbf{{{}}}",
        r"\textcolor{{blue}}{{\textbf{{{}}}}}",
        r"{} {{\scriptsize({})}}",
    ),
    "text": (_text, str, "{}*", "{}**", "{} ({})"),
    "html": (
        _html,
        html.escape,
        '<b class="best">{}</b>',
        '<b class="overall">{}</b>',
        "{} <small>{}</small>",
    ),
}
FORMATS = tuple(_RENDERERS)
