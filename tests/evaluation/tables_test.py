"""One table in three formats, and the table of an overview."""

import csv
import io

import pytest

from s2d_tf.evaluation import tables

CELL = tables.Cell


@pytest.fixture
def table():
    return tables.make(
        "Test performance",
        ["Model", ("C100", "Acc"), ("C100", "NLL"), ("Cost", "Params")],
        [
            [["plain_1", CELL("74.6 ± 0.5", note="75.0"), "1.11", "0.80M"]],
            [["A | B", CELL("75.7", best=True), CELL("0.87", best_overall=True), ""]],
        ],
        footnotes=["± is 2 std, 5% of it."],
    )


TEXT = """\
Test performance

                    C100             Cost
Model                  Acc     NLL  Params
------------------------------------------
plain_1  74.6 ± 0.5 (75.0)    1.11   0.80M
------------------------------------------
A | B                75.7*  0.87**

± is 2 std, 5% of it.
"""
MARKDOWN = r"""**Test performance**

| Model | C100 Acc | C100 NLL | Cost Params |
| --- | ---: | ---: | ---: |
| plain_1 | 74.6 ± 0.5 (75.0) | 1.11 | 0.80M |
| A \| B | **75.7** | ***0.87*** |  |

± is 2 std, 5% of it.
"""


@pytest.mark.parametrize(("form", "expected"), [("text", TEXT), ("markdown", MARKDOWN)])
def test_columns_line_up_and_cells_are_marked(table, form, expected):
    assert tables.render(table, form) == expected


def test_csv_reads_back(table):
    rows = list(csv.reader(io.StringIO(tables.render(table, "csv"))))
    assert rows == [
        ["Model", "C100 Acc", "C100 NLL", "Cost Params"],
        ["plain_1", "74.6 ± 0.5", "1.11", "0.80M"],
        ["A | B", "75.7", "0.87", ""],
    ]
    with pytest.raises(ValueError, match="expected one of text, markdown, csv, received 'pdf'"):
        tables.render(table, "pdf")


def test_the_overview_marks_the_best_and_leaves_blanks():
    shared = {"digits/ece": 0.01, "far/auroc/confidence": 0.8, "far/auroc/total": 0.7}
    shared["far/auroc/knowledge"] = 0.6
    results = {
        "plain": {"digits/accuracy": 0.9, "digits/nll": 0.5, "digits/ece": 0.02,
                  "far/auroc/confidence": 0.7, "far/auroc/total": 0.8},
        "s2d": [
            {"digits/accuracy": 0.8, "digits/nll": 0.3, **shared},
            {"digits/accuracy": 0.9, "digits/nll": 0.5, **shared},
        ],
    }  # fmt: skip
    table = tables.overview_table(results, "digits", ["far"])
    plain, s2d = (dict(zip(table.titles, row, strict=True)) for row in table.rows)
    assert plain["Digits 0 to 7 Acc"] == CELL("90.0", best=True)
    assert s2d["Digits 0 to 7 Acc"] == CELL("85.0 ± 14.1")
    assert s2d["Digits 0 to 7 NLL"] == CELL("0.40 ± 0.28", best=True)
    assert s2d["Digits 0 to 7 %ECE"].text == "1.00 ± 0.00"
    assert plain["far %AUROC TU"].best
    assert plain["far %AUROC KU"] == CELL("")
    assert not s2d["far %AUROC KU"].best  # Alone in its column.
