"""A table as a picture, for slides and for people who look before they read."""

from s2d_tf.evaluation import drawing

CHARACTER, LINE = 0.075, 0.24  # Inches of a character's width and of a line's height.
GAP = 2  # Characters between columns.


def draw(table, path):
    """Writes a `tables.Table` as PNG: names to the left, numbers to the right, the best in bold."""
    widths = [
        max(len(name), *(len(row[i].text) for row in table.rows)) + GAP
        for i, (_, name) in enumerate(table.columns)
    ]
    edges = [sum(widths[: i + 1]) for i in range(len(widths))]
    height = 4 + len(table.rows) + 0.4 * len(table.blocks) + len(table.footnotes)
    panel = (CHARACTER * edges[-1], LINE * height)
    with drawing.frame(path, (1, 1), panel) as ((axis,),):
        axis.set_xlim(0, edges[-1])
        axis.set_ylim(height, 0)
        axis.set_axis_off()

        def write(column, line, text, **style):
            named = column < table.stub
            x = edges[column] - (widths[column] if named else GAP / 2)
            axis.text(x, line, text, va="center", ha="left" if named else "right", **style)

        def rule(line, start=0.0, stop=edges[-1], **style):
            axis.plot([start, stop], [line, line], color=drawing.FAINT, **style)

        axis.text(0, 0.5, table.caption, va="center", weight="bold")
        for group, first, last in _groups(table):
            left, right = edges[first] - widths[first] + GAP / 2, edges[last] - GAP / 2
            axis.text((left + right) / 2, 1.7, group, va="center", ha="center")
            rule(2.2, left, right, linewidth=0.6)
        for i, (_, name) in enumerate(table.columns):
            write(i, 2.7, name, color=drawing.FAINT)
        line = 3.2
        for block in table.blocks:
            rule(line, linewidth=0.8)
            line += 0.7
            for row in block:
                for i, cell in enumerate(row):
                    bold = cell.best or cell.best_overall
                    write(i, line, cell.text, weight="bold" if bold else "normal")
                line += 1
            line -= 0.3
        rule(line, linewidth=0.8)
        for i, note in enumerate(table.footnotes):
            axis.text(0, line + 0.7 + i, note, va="center", color=drawing.FAINT)


def _groups(table):
    """`(name, first column, last column)` of each run of columns with one group."""
    found = []
    for i, (group, _) in enumerate(table.columns):
        if group and found and found[-1][0] == group and found[-1][2] == i - 1:
            found[-1] = (group, found[-1][1], i)
        elif group:
            found.append((group, i, i))
    return found
