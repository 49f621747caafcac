"""The paper's tables in their own shape, filled with our runs."""

from s2d_tf.evaluation import tables
from s2d_tf.evaluation.names import LOWER_IS_BETTER
from s2d_tf.evaluation.results import by_variant
from s2d_tf.evaluation.statistics import mean_and_two_std
from s2d_tf.paper import published

NOT_RUN = "not run"
RELATIVE_TIME = "cost/relative_inference_time"
# Other networks are shown in the shape of these tables, which have every method.
DEFAULT_ARCHITECTURE = "densenet_bc_100_12"
TRAINED_ON = ("cifar100", "cifar100_plus")


def numbers_for(architecture):
    """Numbers of the tables that the paper has for a network."""
    known = {table.architecture for table in published.tables()}
    shape = architecture if architecture in known else DEFAULT_ARCHITECTURE
    return [table.number for table in published.tables() if table.architecture == shape]


def paper_table(number, results, architecture):
    """Table `number` of the paper with our figures and the published ones beside them.

    Args:
        number: number of the table in the paper.
        results: `results.Result`s; those of another network are left out.
        architecture: our network.

    Returns:
        `tables.Table`. Cells that were not run say so; blanks are where the paper has blanks; in
        brackets is the published figure.
    """
    shape = published.table(number)
    if shape.architecture is None:
        return _as_printed(shape)
    own = [r for r in results if r.recipe.architecture == architecture]
    if not any(r.trained_on in TRAINED_ON for r in own):
        raise ValueError(
            f"Table {number} of the paper is about CIFAR-100, received runs of {architecture} on "
            f"{sorted({r.trained_on for r in own})}: leave out --table."
        )
    held = {
        data: by_variant([r for r in own if r.trained_on == data or data is None])
        for data in (*TRAINED_ON, None)
    }
    values = [
        [_values(held[column.trained_on], row, column) for column in shape.columns]
        for row in shape.rows
    ]
    marks = _marks(shape, values)
    blocks, last = [], None
    for i, row in enumerate(shape.rows):
        if row.block != last:
            blocks.append([])
            last = row.block
        cells = [
            _cell(printed, column, values[i][j], marks.get((i, j)))
            for j, (printed, column) in enumerate(zip(row.cells, shape.columns, strict=True))
        ]
        blocks[-1].append([*row.stub, *cells])
    return tables.make(
        f"Table {number}. {shape.caption.replace('*', '')}",
        [*(("", name) for name in shape.stub), *((c.group, c.name) for c in shape.columns)],
        blocks,
        stub=len(shape.stub),
        footnotes=_footnotes(shape, own, architecture),
    )


def has_figures(table):
    """Whether any cell of a filled-in table is ours."""
    return any(
        cell.text not in ("", "-", NOT_RUN) for row in table.rows for cell in row[table.stub :]
    )


def format_value(metric, value, spread=None):
    """A metric as the paper prints it: per cent with one decimal, calibration with two."""
    if metric == "cost/parameters":
        return f"{value / 1e6:.2f}M"
    name = metric.split("/")[1]
    if "nll" in name or name == "temperature":
        scale, decimals = 1.0, 2
    else:
        scale, decimals = 100.0, 2 if "ece" in name or name.endswith("brier") else 1
    text = f"{scale * value:.{decimals}f}"
    return text if spread is None else f"{text} ± {scale * spread:.{decimals}f}"


def _values(held, row, column):
    """Our values of a cell, one for each seed."""
    found = [r.metrics for r in held.get(published.variant(row.method, row.members), ())]
    key = _our_metric(column)
    return [metrics[key] for metrics in found if key in metrics]


def _our_metric(column):
    # Milliseconds of other machines, or of a busier hour, do not compare; ratios do.
    return RELATIVE_TIME if column.metric == "cost/inference_ms" else column.metric


def _cell(printed, column, values, mark):
    if printed.blank:
        return tables.Cell(printed.text)
    published = printed.text.replace("*", "")
    if not values:
        return tables.Cell(NOT_RUN, note=published)
    mean, spread = mean_and_two_std(values)
    if _our_metric(column) == RELATIVE_TIME:
        text = f"{mean:.1f} ×"
    elif column.metric.startswith("cost/"):
        text = format_value(column.metric, mean)
    else:
        text = format_value(column.metric, mean, spread)
    return tables.Cell(text, best=bool(mark), best_overall=mark == "overall", note=published)


def _marks(shape, values):
    """`{(row, column): "best" or "overall"}`, where the paper marks its own.

    Performance is compared within a block, detection in a column and, for the best overall, in all
    columns of one ranking metric. What is printed alike is equally good.
    """
    if not any(cell.best for cell in shape.cells()):
        return {}
    marks = {}
    blocks = {row.block for row in shape.rows} if shape.kind == "performance" else {None}
    for block in blocks:
        rows = [i for i, row in enumerate(shape.rows) if block in (None, row.block)]
        for j, column in enumerate(shape.columns):
            if not column.metric.startswith("cost/"):
                _mark(marks, [(i, j) for i in rows], shape, values, "best")
    if shape.kind == "detection":
        for group in {column.group for column in shape.columns}:
            inside = [j for j, column in enumerate(shape.columns) if column.group == group]
            places = [(i, j) for i in range(len(shape.rows)) for j in inside]
            _mark(marks, places, shape, values, "overall")
    return marks


def _mark(marks, places, shape, values, mark):
    printed = {}
    for i, j in places:
        if values[i][j] and not shape.rows[i].cells[j].blank:
            mean = mean_and_two_std(values[i][j])[0]
            printed[i, j] = float(format_value(shape.columns[j].metric, mean))
    if len(printed) > 1:
        metric = shape.columns[places[0][1]].metric.split("/")[1]
        best = (min if metric in LOWER_IS_BETTER else max)(printed.values())
        marks.update({place: mark for place, value in printed.items() if value == best})


def _footnotes(shape, results, architecture):
    notes = ["In brackets or small print: the figure that the paper has published."]
    if architecture != shape.architecture:
        notes[0] = (
            f"In brackets or small print: the paper's figure for {shape.architecture}. Ours are of "
            f"{architecture}, another network: compare the order of the methods, not the figures."
        )
    if any(_our_metric(column) == RELATIVE_TIME for column in shape.columns):
        notes.append("Our inference time is a multiple of the individual network's.")
    seeds = sorted({len(part) for part in by_variant(results).values()})
    if seeds != [1]:
        notes.append("± is two standard deviations over the seeds, where there are several.")
    if any(r.split != "train" for r in results):
        notes.append("Some runs were trained without the validation split.")
    missing = sorted({name for r in results for name in r.missing_data})
    if shape.ood in missing:
        notes.append(f"{shape.ood} was not available when these runs were evaluated.")
    return notes


def _as_printed(shape):
    rows = [[*row.stub, *(cell.text for cell in row.cells)] for row in shape.rows]
    columns = [*shape.stub, *(column.name for column in shape.columns)]
    return tables.make(f"Table {shape.number}. {shape.caption}", columns, [rows], len(shape.stub))
