"""Small tables for people: one record, five ways to print it."""

import csv
import dataclasses
import html
import io

FORMATS = ("markdown", "csv", "latex", "text", "html")
_LATEX = {
    "\\": r"\textbackslash{}",
    "±": r"$\pm$",
    "×": r"$\times$",
    **{character: rf"\{character}" for character in "%_&#${}"},
}


@dataclasses.dataclass(frozen=True)
class Cell:
    """A printed value. `best` is best in its column, `best_overall` best in the whole table."""

    text: str = ""
    best: bool = False
    best_overall: bool = False
    note: str = ""
    """Small print that belongs to the cell, such as the paper's figure."""


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
    def rows(self):
        return [row for block in self.blocks for row in block]

    @property
    def titles(self):
        return [f"{group} {name}".strip() for group, name in self.columns]


def make(caption, columns, blocks, stub=1, footnotes=()):
    """A `Table` from plain values: columns as strings or pairs, cells as strings or `Cell`s."""
    columns = tuple(
        ("", column) if isinstance(column, str) else tuple(column) for column in columns
    )
    blocks = tuple(
        tuple(tuple(c if isinstance(c, Cell) else Cell(str(c)) for c in row) for row in block)
        for block in blocks
    )
    for row in (row for block in blocks for row in block):
        if len(row) != len(columns):
            raise ValueError(
                f"Expected {len(columns)} cells in each row of {caption!r}, received {len(row)}."
            )
    return Table(caption, columns, blocks, stub, tuple(footnotes))


def render(table, form="text"):
    """The table as a string in one of `FORMATS`."""
    if form not in FORMATS:
        raise ValueError(f"Expected a format of {', '.join(FORMATS)}, received {form!r}.")
    return {
        "markdown": _markdown,
        "csv": _csv,
        "latex": _latex,
        "text": _text,
        "html": _html,
    }[form](table)


def _markdown(table):
    def line(cells):
        return "| " + " | ".join(cells) + " |"

    def cell(value):
        text = value.text.replace("|", r"\|")
        mark = "***" if value.best_overall else "**" if value.best else ""
        note = f" ({value.note})" if value.note else ""
        return f"{mark}{text}{mark}{note}"

    rules = ["---"] * table.stub + ["---:"] * (len(table.columns) - table.stub)
    lines = [f"**{table.caption}**", ""] if table.caption else []
    lines += [line(table.titles), line(rules)]
    lines += [line([cell(c) for c in row]) for row in table.rows]
    return "\n".join([*lines, *(f"\n{note}" for note in table.footnotes)]) + "\n"


def _csv(table):
    """Plain numbers; the notes go into columns of their own, if there are any."""
    noted = [any(row[i].note for row in table.rows) for i in range(len(table.columns))]
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")

    def spread(values, notes):
        pairs = zip(values, notes, noted, strict=True)
        return [part for value, note, has in pairs for part in ((value, note) if has else (value,))]

    writer.writerow(spread(table.titles, [f"{title} (paper)" for title in table.titles]))
    for row in table.rows:
        writer.writerow(spread([c.text for c in row], [c.note for c in row]))
    return file.getvalue()


def _latex(table):
    def escape(text):
        return "".join(_LATEX.get(character, character) for character in text)

    def cell(value):
        text = escape(value.text)
        if value.best or value.best_overall:
            text = rf"\textbf{{{text}}}"
        if value.best_overall:
            text = rf"\textcolor{{blue}}{{{text}}}"
        note = rf" {{\scriptsize({escape(value.note)})}}" if value.note else ""
        return text + note

    spec = "l" * table.stub + "c" * (len(table.columns) - table.stub)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{escape(table.caption)}}}"]
    lines += [rf"\begin{{tabular}}{{{spec}}}", r"\toprule"]
    if any(group for group, _ in table.columns):
        spans = [
            escape(group) if width == 1 else rf"\multicolumn{{{width}}}{{c}}{{{escape(group)}}}"
            for group, width in spans_of(table)
        ]
        lines.append(" & ".join(spans) + r" \\")
    lines.append(" & ".join(escape(name) for _, name in table.columns) + r" \\")
    for block in table.blocks:
        lines.append(r"\midrule")
        lines += [" & ".join(cell(c) for c in row) + r" \\" for row in block]
    lines += [r"\bottomrule", r"\end{tabular}"]
    lines += [rf"\par\footnotesize {escape(note)}" for note in table.footnotes]
    return "\n".join([*lines, r"\end{table}"]) + "\n"


def _text(table):
    def cell(value):
        mark = "**" if value.best_overall else "*" if value.best else ""
        note = f" ({value.note})" if value.note else ""
        return f"{value.text}{mark}{note}"

    grid = [[cell(c) for c in row] for row in table.rows]
    widths = [
        max(len(name), *(len(row[i]) for row in grid)) if grid else len(name)
        for i, (_, name) in enumerate(table.columns)
    ]
    start = 0
    for group, width in spans_of(table):  # A long group name widens its last column.
        room = sum(widths[start : start + width]) + 2 * (width - 1)
        widths[start + width - 1] += max(0, len(group) - room)
        start += width

    def line(cells):
        placed = [
            text.ljust(width) if i < table.stub else text.rjust(width)
            for i, (text, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "  ".join(placed).rstrip()

    lines = [table.caption, ""] if table.caption else []
    if any(group for group, _ in table.columns):
        heads, start = [], 0
        for group, width in spans_of(table):
            heads.append(group.center(sum(widths[start : start + width]) + 2 * (width - 1)))
            start += width
        lines.append("  ".join(heads).rstrip())
    lines.append(line([name for _, name in table.columns]))
    rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
    rows = iter(grid)
    for block in table.blocks:
        lines.append(rule)
        lines += [line(next(rows)) for _ in block]
    return "\n".join([*lines, *(["", *table.footnotes] if table.footnotes else [])]) + "\n"


def _html(table):
    def cell(value, tag):
        text = html.escape(value.text)
        if value.best or value.best_overall:
            text = f'<b class="{"overall" if value.best_overall else "best"}">{text}</b>'
        note = f" <small>{html.escape(value.note)}</small>" if value.note else ""
        return f"<{tag}>{text}{note}</{tag}>"

    head = "".join(
        f"<th{' class=stub' if i < table.stub else ''}>{html.escape(name)}</th>"
        for i, (_, name) in enumerate(table.columns)
    )
    heads = [f"<tr>{head}</tr>"]
    if any(group for group, _ in table.columns):
        spans = "".join(
            f'<th colspan="{width}"{" class=group" if group else ""}>{html.escape(group)}</th>'
            for group, width in spans_of(table)
        )
        heads.insert(0, f"<tr>{spans}</tr>")
    bodies = [
        "<tbody>"
        + "".join(
            "<tr>"
            + "".join(cell(c, "th" if i < table.stub else "td") for i, c in enumerate(row))
            + "</tr>"
            for row in block
        )
        + "</tbody>"
        for block in table.blocks
    ]
    notes = "".join(f"<p class=note>{html.escape(note)}</p>" for note in table.footnotes)
    caption = f"<figcaption>{html.escape(table.caption)}</figcaption>" if table.caption else ""
    body = f"<table><thead>{''.join(heads)}</thead>{''.join(bodies)}</table>"
    return f"<figure class=table>{caption}<div class=scroll>{body}</div>{notes}</figure>\n"


def spans_of(table):
    """The columns' groups with the number of neighbours that share them."""
    spans = []
    for group, _ in table.columns:
        if spans and spans[-1][0] == group:
            spans[-1][1] += 1
        else:
            spans.append([group, 1])
    return spans
