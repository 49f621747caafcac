"""The paper's tables as printed, from `paper_tables.toml`; and the same tables with our runs.

Each printed row knows which method it is about, and each column which metric of `evaluate` it
corresponds to, so that comparisons are generated and never typed.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from importlib import resources

from s2d_tf.errors import UserError
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.intervals import mean_and_two_std
from s2d_tf.evaluation.names import SHORT_NAMES, format_value
from s2d_tf.evaluation.tables import best_of

from .claims import with_stand_ins
from .results import Result, by_variant
from .views import USUAL_MEMBERS, variant

NOT_RUN = "not run"
# Printed name -> our method.
METHODS = {
    "Individual": "individual",
    "S2D Individual": "s2d",
    "MIMO": "mimo",
    "S2D MIMO": "s2d_mimo",
    "SWAG-Diag": "swag",
    "S2D SWAG-Diag": "s2d_swag",
    "MC": "mc",
    "MC ensemble": "mc",
    "S2D MC ensemble": "s2d_mc",
    "Deep": "ensemble",
    "Deep ensemble": "ensemble",
    "S2D Deep ensemble": "s2d_ensemble",
    "S2D Deep Ensemble": "s2d_ensemble",
    "EnD": "end",
    "H2D-Dir": "h2d_dir",
    "H2D-Gauss": "h2d_gauss",
}
TRAINED_ON = {"C100": "cifar100", "C100+": "cifar100_plus"}
_UNCERTAINTIES = {printed: name for name, printed in SHORT_NAMES.items()}
# Milliseconds of other machines, or of a busier hour, do not compare; ratios do.
_TIME = "cost/relative_inference_time"
# Printed column -> the metric's key.
_COLUMNS = {
    "Acc": "cifar100/accuracy",
    "NLL": "cifar100/nll",
    "%ECE": "cifar100/ece",
    "Params": "cost/parameters",
    "Inference": _TIME,
    "Train": None,
    "Test": None,
    "Classes": None,
}
_CELL = re.compile(r"(\*{0,3})(?P<value>\d+(?:\.\d+)?)\1(?:M|ms|)\*?(?: ± \d+(?:\.\d+)?)?")


@dataclasses.dataclass(frozen=True)
class Column:
    """A printed column; `metric` is the key of `evaluate`, None for what is not a metric."""

    group: str
    name: str
    metric: str | None
    trained_on: str | None


@dataclasses.dataclass(frozen=True)
class Cell:
    """The text as printed, with marks and spread, and its number; None in a blank or at a dash."""

    text: str
    value: float | None

    @property
    def plain(self) -> str:
        """The text without marks."""
        return self.text.replace("*", "")


@dataclasses.dataclass(frozen=True)
class Row:
    """A printed row.

    `block` counts the parts that the paper separates by a rule, from 0; `variant` is our method
    with its number of members, such as `ensemble_10`.
    """

    stub: tuple[str, ...]
    block: int
    variant: str | None
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table in the shape in which it is printed.

    `kind` is "performance", "detection" or "datasets"; `ood` names the out-of-distribution dataset.
    """

    number: int
    caption: str
    kind: str
    architecture: str | None
    ood: str | None
    stub: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def cells(self) -> list[tuple[Row, Column, Cell]]:
        """All `(row, column, cell)`, row by row."""
        pairs = [(row, zip(self.columns, row.cells, strict=True)) for row in self.rows]
        return [(row, column, cell) for row, cells in pairs for column, cell in cells]


@functools.cache
def published_tables() -> tuple[Table, ...]:
    """All tables of the paper, in the order of their numbers."""
    path = resources.files("s2d_tf.trainers.studies").joinpath("paper_tables.toml")
    return tuple(map(_parse_table, tomllib.loads(path.read_text("utf-8"))["tables"]))


def published_table(number: int) -> Table:
    """The table with this number in the paper."""
    numbered = {table.number: table for table in published_tables()}
    UserError.unless(
        number in numbered,
        f"number: expected a table of the paper, 1 to {len(numbered)}, received {number!r}. "
        "Leave it out for all tables.",
    )
    return numbered[number]


def _parse_table(data):
    """A `Table` from its record in `paper_tables.toml`."""
    columns = tuple(_parse_column(group, name, data.get("ood")) for group, name in data["columns"])
    rows: list[Row] = []
    for block, printed_rows in enumerate(data["blocks"]):
        for printed in printed_rows:
            stub, texts = printed[: len(data["stub"])], printed[len(data["stub"]) :]
            members = int(stub[1]) if len(stub) > 1 else None
            own = None if data["kind"] == "datasets" else variant(METHODS[stub[0]], members)
            cells = tuple(
                rows[-1].cells[i] if text == "^" else _parse_cell(text)
                for i, text in enumerate(texts)
            )
            rows.append(Row(tuple(stub), block, own, cells))
    return Table(
        number=data["number"],
        caption=data["caption"],
        kind=data["kind"],
        architecture=data.get("architecture"),
        ood=data.get("ood"),
        stub=tuple(data["stub"]),
        columns=columns,
        rows=tuple(rows),
    )


def _parse_column(group, name, ood):
    if name in _UNCERTAINTIES:
        ranking = group.rpartition("%")[2].lower()
        return Column(group, name, f"{ood}/{ranking}/{_UNCERTAINTIES[name]}", "cifar100")
    metric = _COLUMNS[name.rstrip(".")]
    # Sizes and costs are those of the network, whatever it was trained on.
    of_network = metric is None or metric.startswith("cost/")
    trained_on = None if of_network else TRAINED_ON.get(group, "cifar100")
    return Column(group, name, metric, trained_on)


def _parse_cell(text):
    match = _CELL.fullmatch(text)
    return Cell(text, float(match["value"]) if match else None)


def paper_table(number: int, results: list[Result], architecture: str) -> tables.Table:
    """Table `number` of the paper with our numbers and the published ones beside them.

    Args:
        number: number of the table in the paper.
        results: `Result`s; those of another network are left out.
        architecture: our network.

    Returns:
        `tables.Table`. Cells that were not run say so; blanks are where the paper has blanks; in
        brackets is the published number.

    Raises:
        ValueError: none of the results is of this network on CIFAR-100.

    Example:

    >>> recipe = recipes.resolve("densenet_bc_100_12.s2d.cifar100")
    >>> run = zoo.Run("cifar100", recipe, seed=0).write()
    >>> result = studies.Result(**vars(run), metrics={"cifar100/accuracy": 0.76})
    >>> table = studies.paper_table(1, [result], "densenet_bc_100_12")
    >>> [cell.text for cell in table.rows[1]][:3]
    ['S2D Individual', '76.0', 'not run']
    """
    shape = published_table(number)
    columns = [*(("", name) for name in shape.stub), *((c.group, c.name) for c in shape.columns)]
    caption, stub = f"Table {number}. {shape.caption}", len(shape.stub)
    if shape.architecture is None:
        rows = [[*row.stub, *(cell.text for cell in row.cells)] for row in shape.rows]
        return tables.make(caption, columns, [rows], stub)
    own = [r for r in results if r.recipe.architecture == architecture]
    UserError.unless(
        any(r.recipe.dataset in TRAINED_ON.values() for r in own),
        f"--table: expected runs on CIFAR-100, which table {number} of the paper is "
        f"about, received runs of {architecture} on "
        f"{sorted({r.recipe.dataset for r in own})}. Leave out --table.",
    )
    means = _means(shape, own)
    marks = _marks(shape, {place: mean for place, (mean, _) in means.items()})
    blocks: list[list] = [[] for _ in range(shape.rows[-1].block + 1)]
    for i, row in enumerate(shape.rows):
        cells = [
            _cell(column, row.cells[j], means.get((i, j)), marks.get((i, j)))
            for j, column in enumerate(shape.columns)
        ]
        blocks[row.block].append([*row.stub, *cells])
    footnotes = _footnotes(shape, own, architecture)
    return tables.make(caption.replace("*", ""), columns, blocks, stub, footnotes)


def _means(shape, results):
    """`{(row, column): (mean, spread)}` over our seeds, for the cells that the paper fills too."""
    held = {
        data: with_stand_ins(by_variant([r for r in results if data in (None, r.recipe.dataset)]))
        for data in (*TRAINED_ON.values(), None)
    }
    found = {}
    for i, row in enumerate(shape.rows):
        for j, column in enumerate(shape.columns):
            seeds = held[column.trained_on].get(row.variant, ())
            values = [r.metrics[column.metric] for r in seeds if column.metric in r.metrics]
            if values and row.cells[j].value is not None:
                found[i, j] = mean_and_two_std(values)
    return found


def _cell(column, printed, ours, mark):
    if printed.value is None:
        return tables.Cell(printed.text)
    if ours is None:
        return tables.Cell(NOT_RUN, note=printed.plain)
    mean, spread = ours
    of_network = column.metric.startswith("cost/")
    text = format_value(column.metric, mean, None if of_network else spread)
    return tables.Cell(text, best=bool(mark), best_overall=mark == "overall", note=printed.plain)


def has_numbers(table: tables.Table) -> bool:
    """Whether some cell of a `paper_table` is ours."""
    cells = [cell for row in table.rows for cell in row[table.stub :]]
    return any(cell.text not in ("", "-", NOT_RUN) for cell in cells)


def _marks(shape, means):
    """`{(row, column): "best" or "overall"}`, where the paper marks its own.

    Performance is compared within a block, detection in a column and, for the best overall, in all
    columns of one ranking metric. What is printed alike is equally good.
    """
    if not any("**" in cell.text for *_, cell in shape.cells()):
        return {}
    compared: dict[tuple, list[tuple[int, int]]] = {}
    for i, j in means:
        column, block = shape.columns[j], shape.rows[i].block
        if not column.metric.startswith("cost/"):
            of = block if shape.kind == "performance" else None
            compared.setdefault(("best", of, j), []).append((i, j))
            if shape.kind == "detection":
                compared.setdefault(("overall", column.group), []).append((i, j))
    marks: dict[tuple[int, int], str] = {}
    for (mark, *_), places in sorted(compared.items(), key=lambda item: item[0][0]):
        key = shape.columns[places[0][1]].metric
        marks |= dict.fromkeys(best_of(key, {place: means[place] for place in places}), mark)
    return marks


def _footnotes(shape, results, architecture):
    first = "In brackets or small print: the number that the paper has published."
    if architecture != shape.architecture:
        first = (
            f"In brackets or small print: the paper's number for {shape.architecture}. Ours are of "
            f"{architecture}, trained for up to {max(r.recipe.training.epochs for r in results)} "
            "epochs: compare the order of the methods, not the numbers."
        )
    sizes = sorted({r.recipe.num_members for r in results if r.recipe.draws == "ensemble"})
    notes = {
        first: True,
        "Our inference time is a multiple of the individual network's.": any(
            column.metric == _TIME for column in shape.columns
        ),
        "± is two standard deviations over the seeds, where there are several.": any(
            len(seeds) > 1 for seeds in by_variant(results).values()
        ),
        f"Deep ensembles have {' or '.join(map(str, sizes))} members, the paper's 5.": any(
            size != USUAL_MEMBERS for size in sizes
        ),
        "Some runs were trained without the validation split.": any(
            r.split != "train" for r in results
        ),
        f"{shape.ood} was not available when these runs were evaluated.": any(
            shape.ood in r.missing_data for r in results
        ),
    }
    return [note for note, applies in notes.items() if applies]
