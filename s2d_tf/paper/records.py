"""Typed records of the paper's tables, read from the cells as they are printed."""

import dataclasses
import re

from s2d_tf.evaluation.names import SHORT_NAMES, variant

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
# Printed column -> the metric's key and the unit of the printed number.
_COLUMNS = {
    "Acc": ("cifar100/accuracy", "percent"),
    "NLL": ("cifar100/nll", "nats"),
    "%ECE": ("cifar100/ece", "percent"),
    "Params": ("cost/parameters", "million"),
    "Inference": ("cost/inference_ms", "milliseconds"),
    "Train": (None, "count"),
    "Test": (None, "count"),
    "Classes": (None, "count"),
}
_SCALE = {"percent": 0.01, "nats": 1.0, "million": 1e6, "milliseconds": 1.0, "count": 1.0}
_CELL = re.compile(r"(\*{0,3})(?P<value>\d+(?:\.\d+)?)\1(?:M|ms|)\*?(?: ± \d+(?:\.\d+)?)?")


@dataclasses.dataclass(frozen=True)
class Column:
    """A printed column; `metric` is the key of `evaluate`, None for what is not a metric."""

    group: str
    name: str
    metric: str | None
    unit: str
    trained_on: str | None

    @property
    def title(self):
        """Group and name as one string, such as `OOD %AUROC KU`."""
        return f"{self.group} {self.name}".strip()


@dataclasses.dataclass(frozen=True)
class Cell:
    """One printed cell with its provenance.

    `text` is as printed, with the marks and the spread (two standard deviations); `value` is the
    number in the unit of the column, None in a blank. `variant` is our method with its size.
    """

    table: int
    architecture: str | None
    row: str
    variant: str | None
    column: Column
    text: str
    value: float | None

    @property
    def blank(self):
        """Whether the paper prints nothing, or a dash, here."""
        return self.value is None

    @property
    def plain(self):
        """The text without marks."""
        return self.text.replace("*", "")

    @property
    def metric_value(self):
        """The value as `evaluate` reports it: fractions instead of per cent, single parameters."""
        return None if self.blank else self.value * _SCALE[self.column.unit]


@dataclasses.dataclass(frozen=True)
class Row:
    """A printed row. `block` counts the parts that the paper separates by a rule, from 0."""

    name: str
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

    def cells(self):
        """All cells, row by row."""
        return [cell for row in self.rows for cell in row.cells]


def parse_table(data):
    """A `Table` from its record in `paper_tables.toml`."""
    columns = tuple(_parse_column(group, name, data.get("ood")) for group, name in data["columns"])
    rows = []
    for block, printed_rows in enumerate(data["blocks"]):
        for printed in printed_rows:
            rows.append(_parse_row(data, columns, block, printed, rows[-1] if rows else None))
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
        return Column(group, name, f"{ood}/{ranking}/{_UNCERTAINTIES[name]}", "percent", "cifar100")
    metric, unit = _COLUMNS[name.rstrip(".")]
    # Sizes and costs are those of the network, whatever it was trained on.
    of_network = metric is None or metric.startswith("cost/")
    trained_on = None if of_network else TRAINED_ON.get(group, "cifar100")
    return Column(group, name, metric, unit, trained_on)


def _parse_row(data, columns, block, printed, above):
    stub = tuple(printed[: len(data["stub"])])
    name, members = " ".join(stub), int(stub[1]) if len(stub) > 1 else None
    own = None if data["kind"] == "datasets" else variant(METHODS[stub[0]], members)
    cells = []
    for index, (column, text) in enumerate(zip(columns, printed[len(stub) :], strict=True)):
        text = above.cells[index].text if text == "^" else text
        match = _CELL.fullmatch(text)
        if match is None and text not in ("", "-"):
            raise ValueError(f"paper_tables.toml: expected a number in {name}, received {text!r}.")
        value = float(match["value"]) if match else None
        place = data["number"], data.get("architecture"), name, own
        cells.append(Cell(*place, column, text, value))
    return Row(name, stub, block, own, tuple(cells))
