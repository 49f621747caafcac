"""Typed records of the paper's tables, read from the cells as they are printed."""

import dataclasses
import re

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
UNCERTAINTIES = {"Conf.": "confidence", "TU": "total", "DU": "data", "KU": "knowledge"}
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
_CELL = re.compile(
    r"(?P<mark>\*{0,3})(?P<value>\d+(?:\.\d+)?)(?P=mark)(?P<unit>M|ms|)(?P<note>\*?)"
    r"(?: ± (?P<spread>\d+(?:\.\d+)?))?"
)


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

    `value` and `spread` (two standard deviations) are in the printed `unit`; both are None in a
    blank. `metric_value` is the value in the unit of our metrics. `best` and `best_overall` are the
    paper's bold and bold blue; `merged` marks a cell that the paper prints once for several rows.
    """

    table: int
    row: str
    column: str
    text: str
    value: float | None
    spread: float | None
    unit: str
    best: bool
    best_overall: bool
    merged: bool
    architecture: str | None
    method: str | None
    members: int | None
    trained_on: str | None
    metric: str | None

    @property
    def blank(self):
        """Whether the paper prints nothing, or a dash, here."""
        return self.value is None

    @property
    def metric_value(self):
        """The value as `evaluate` reports it: fractions instead of per cent, single parameters."""
        return None if self.value is None else self.value * _SCALE[self.unit]

    @property
    def metric_spread(self):
        """The spread in the unit of `metric_value`."""
        return None if self.spread is None else self.spread * _SCALE[self.unit]

    @property
    def source(self):
        """Where the number stands, for people: `Table 3, S2D Individual, OOD %AUROC KU`."""
        return f"Table {self.table}, {self.row}, {self.column}"


@dataclasses.dataclass(frozen=True)
class Row:
    """A printed row. `block` counts the parts that the paper separates by a rule, from 0."""

    name: str
    stub: tuple[str, ...]
    block: int
    method: str | None
    members: int | None
    cells: tuple[Cell, ...]


@dataclasses.dataclass(frozen=True)
class Table:
    """A table in the shape in which it is printed.

    `kind` is "performance", "detection" or "datasets"; `ood` names the out-of-distribution set.
    """

    number: int
    label: str
    caption: str
    kind: str
    architecture: str | None
    ood: str | None
    header_printed: bool
    stub: tuple[str, ...]
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    def cells(self):
        """All cells, row by row."""
        return [cell for row in self.rows for cell in row.cells]


def parse_table(data):
    columns = tuple(_parse_column(group, name, data.get("ood")) for group, name in data["columns"])
    rows, above = [], None
    for block, printed_rows in enumerate(data["blocks"]):
        for printed in printed_rows:
            above = _parse_row(data, columns, block, printed, above)
            rows.append(above)
    return Table(
        number=data["number"],
        label=data["label"],
        caption=data["caption"],
        kind=data["kind"],
        architecture=data.get("architecture"),
        ood=data.get("ood"),
        header_printed=data["header_printed"],
        stub=tuple(data["stub"]),
        columns=columns,
        rows=tuple(rows),
    )


def _parse_column(group, name, ood):
    if name in UNCERTAINTIES:
        ranking = group.rpartition("%")[2].lower()
        return Column(group, name, f"{ood}/{ranking}/{UNCERTAINTIES[name]}", "percent", "cifar100")
    metric, unit = _COLUMNS[name.rstrip(".")]
    # Sizes and costs are those of the network, whatever it was trained on.
    of_network = metric is None or metric.startswith("cost/")
    trained_on = None if of_network else TRAINED_ON.get(group, "cifar100")
    return Column(group, name, metric, unit, trained_on)


def _parse_row(data, columns, block, printed, above):
    stub = tuple(printed[: len(data["stub"])])
    method = METHODS[stub[0]] if data["kind"] != "datasets" else None
    members = int(stub[1]) if len(stub) > 1 else None
    shared = {
        "table": data["number"],
        "row": " ".join(stub),
        "architecture": data.get("architecture"),
        "method": method,
        "members": members,
    }
    cells = []
    for index, (column, text) in enumerate(zip(columns, printed[len(stub) :], strict=True)):
        if text == "^":
            cells.append(dataclasses.replace(above.cells[index], merged=True, **shared))
        else:
            cells.append(_parse_cell(column, text, shared))
    return Row(shared["row"], stub, block, method, members, tuple(cells))


def _parse_cell(column, text, shared):
    match = _CELL.fullmatch(text)
    if match is None and text not in ("", "-"):
        raise ValueError(f"paper_tables.toml: cannot read the cell {text!r} of {shared['row']}.")
    mark = match["mark"] if match else ""
    return Cell(
        column=column.title,
        text=text,
        value=float(match["value"]) if match else None,
        spread=float(match["spread"]) if match and match["spread"] else None,
        unit=column.unit,
        best=bool(mark),
        best_overall=mark == "***",
        merged=False,
        trained_on=column.trained_on,
        metric=column.metric,
        **shared,
    )
