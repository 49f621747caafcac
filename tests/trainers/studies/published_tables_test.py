"""The paper's tables: spot values read by eye, counts, and internal consistency."""

import re

import pytest

from s2d_tf.trainers.studies import paper_tables

TABLES = paper_tables.published_tables()


def value(number, row, column):
    """The cell in the row and the column with these printed names, or our method and metric."""
    (found,) = {
        cell
        for own, place, cell in paper_tables.published_table(number).cells()
        if row in (" ".join(own.stub), own.variant)
        and column in (f"{place.group} {place.name}".strip(), place.metric)
    }
    return found


def numbers():
    """Every `(table, row, column, cell)` that holds a number."""
    cells = [(table, *place) for table in TABLES for place in table.cells()]
    return [place for place in cells if place[-1].value is not None]


def test_all_tables_have_their_shapes():
    shapes = {t.number: (len(t.rows), len(t.columns)) for t in TABLES}
    detection, sizes, wide = (13, 8), (6, 8), (7, 8)
    assert shapes == {
        1: (13, 8),
        2: detection,
        3: detection,
        4: (4, 3),
        **dict.fromkeys((5, 6, 7), detection),
        8: (6, 3),
        **dict.fromkeys(range(9, 14), sizes),
        14: (7, 6),
        **dict.fromkeys(range(15, 20), wide),
    }
    assert all(len(row.cells) == len(t.columns) for t in TABLES for row in t.rows)
    assert len(numbers()) == 1147


@pytest.mark.parametrize(
    ("number", "row", "column", "text"),
    [
        (1, "Individual", "C100 Acc", "74.6 ± 0.5"),
        (1, "S2D Individual", "C100+ %ECE", "**4.35** ± 1.23"),
        (1, "S2D Deep ensemble", "C100+ Acc", "**82.1**"),
        (1, "H2D-Gauss", "Computational Cost Inference", "2.4ms"),
        (2, "Individual", "OOD %AUROC Conf.", "77.3 ± 0.9"),
        (2, "H2D-Dir", "OOD %AUROC KU", "***86.4***"),
        (3, "MC ensemble", "OOD %AUROC KU", "68.3 ± 3.0"),
        (3, "Deep ensemble", "OOD %AUPR KU", "**91.5**"),
        (4, "SVHN", "Test", "26032"),
        (5, "SWAG-Diag", "OOD %AUPR KU", "73.4 ± 14.2"),
        (6, "S2D Deep Ensemble", "OOD %AUROC TU", "***84.2***"),
        (8, "MC 5", "Acc.", "75.6 ± 0.9"),
        (10, "MC 20", "OOD %AUPR KU", "51.7 ± 3.0"),
        (14, "S2D Individual", "C100 %ECE", "5.48 ± 2.25"),
        (16, "S2D Individual", "OOD %AUPR KU", "**71.4** ± 5.5"),
        (19, "Individual", "OOD %AUROC Conf.", "71.2 ± 3.8"),
    ],
)
def test_values_read_by_eye(number, row, column, text):
    cell = value(number, row, column)
    assert cell.text == text
    assert cell.value == float(re.search(r"[\d.]+", text)[0])


def test_blanks_stay_blank():
    dash = value(1, "MC ensemble", "C100+ Acc")
    assert (dash.text, dash.value) == ("-", None)
    individual = value(2, "Individual", "OOD %AUROC DU")
    assert (individual.text, individual.value) == ("", None)
    # A single categorical prediction does not decompose: no row of either has DU or KU.
    for table, row, column, cell in ((t, *place) for t in TABLES for place in t.cells()):
        if table.kind == "detection":
            decomposed = column.metric.endswith(("/data", "/knowledge"))
            blank = decomposed and row.variant in ("individual", "end")
            assert (cell.value is None) == blank


def test_marks_are_the_best_of_their_column():
    marked = [t for t in TABLES if t.kind == "detection" and "Best" in t.caption]
    assert [t.number for t in marked] == [2, 3, 5, 6, 7, 15, 16, 17, 18, 19]
    for table in marked:
        held = [(column, cell) for _, column, cell in table.cells() if cell.value is not None]
        for column in table.columns:
            cells = [cell for own, cell in held if own == column]
            best = max(cell.value for cell in cells)
            assert [cell.value for cell in cells if "**" in cell.text] == [best]
        for ranking in ("/auroc/", "/aupr/"):
            cells = [cell for column, cell in held if ranking in column.metric]
            overall = max(cell.value for cell in cells)
            assert [cell.value for cell in cells if "***" in cell.text] == [overall]
