"""The paper's tables as typed records, so that comparisons are generated and never typed.

Everything comes from `paper_tables.toml`; each row knows which method it is about, and each column
which metric of `evaluate` it corresponds to.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from importlib import resources

from s2d_tf.errors import UserError
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
# Printed column -> the metric's key and what the printed number is counted in.
_COLUMNS = {
    "Acc": ("cifar100/accuracy", 0.01),
    "NLL": ("cifar100/nll", 1.0),
    "%ECE": ("cifar100/ece", 0.01),
    "Params": ("cost/parameters", 1e6),
    "Inference": ("cost/inference_ms", 1.0),
    "Train": (None, 1.0),
    "Test": (None, 1.0),
    "Classes": (None, 1.0),
}
_CELL = re.compile(r"(\*{0,3})(?P<value>\d+(?:\.\d+)?)\1(?:M|ms|)\*?(?: ± \d+(?:\.\d+)?)?")


@dataclasses.dataclass(frozen=True)
class Column:
    """A printed column; `metric` is the key of `evaluate`, None for what is not a metric.

    A printed number times `scale` is the value that `evaluate` reports: fractions instead of
    percentages, single parameters.
    """

    group: str
    name: str
    metric: str | None
    scale: float
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
def tables() -> tuple[Table, ...]:
    """All tables of the paper, in the order of their numbers."""
    text = (
        resources.files("s2d_tf.trainers.studies").joinpath("paper_tables.toml").read_text("utf-8")
    )
    return tuple(_parse_table(data) for data in tomllib.loads(text)["tables"])


def table(number: int) -> Table:
    """The table with this number in the paper."""
    numbered = {table.number: table for table in tables()}
    if number not in numbered:
        raise UserError(
            f"number: expected a table of the paper, 1 to {len(numbered)}, received "
            f"{number!r}. Choose one of these."
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
            cells = [
                rows[-1].cells[i] if text == "^" else _parse_cell(text)
                for i, text in enumerate(texts)
            ]
            rows.append(Row(tuple(stub), block, own, tuple(cells)))
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
        return Column(group, name, f"{ood}/{ranking}/{_UNCERTAINTIES[name]}", 0.01, "cifar100")
    metric, scale = _COLUMNS[name.rstrip(".")]
    # Sizes and costs are those of the network, whatever it was trained on.
    of_network = metric is None or metric.startswith("cost/")
    trained_on = None if of_network else TRAINED_ON.get(group, "cifar100")
    return Column(group, name, metric, scale, trained_on)


def _parse_cell(text):
    match = _CELL.fullmatch(text)
    if match is None and text not in ("", "-"):
        raise UserError(
            f"paper_tables.toml: expected a number in each cell, received {text!r}. Correct "
            "the file."
        )
    return Cell(text, float(match["value"]) if match else None)
