"""One table in five formats."""

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
            [["A & B", CELL("75.7", best=True), CELL("0.87", best_overall=True), ""]],
        ],
        footnotes=["± is 2 std, 5% of it."],
    )


def test_text_lines_up(table):
    lines = tables.render(table, "text").splitlines()
    assert lines[0] == "Test performance"
    header = next(line for line in lines if line.startswith("Model"))
    rows = [line for line in lines if line.startswith(("plain_1", "A & B"))]
    assert header.index("NLL") + 3 == rows[0].index("1.11") + 4
    assert "75.7*" in rows[1]
    assert "0.87**" in rows[1]
    assert "(75.0)" in rows[0]
    rules = [line for line in lines if line and set(line) == {"-"}]
    assert len(rules) == 2
    assert max(map(len, lines)) == len(rules[0])


def test_markdown_has_one_cell_per_column(table):
    lines = tables.render(table, "markdown").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    assert {row.count("|") for row in rows} == {5}
    assert rows[0] == "| Model | C100 Acc | C100 NLL | Cost Params |"
    assert rows[1] == "| --- | ---: | ---: | ---: |"
    assert "| 74.6 ± 0.5 (75.0) |" in rows[2]
    assert "| **75.7** | ***0.87*** |  |" in rows[3]


def test_csv_reads_back(table):
    rows = list(csv.reader(io.StringIO(tables.render(table, "csv"))))
    assert rows[0] == ["Model", "C100 Acc", "C100 Acc (paper)", "C100 NLL", "Cost Params"]
    assert rows[1] == ["plain_1", "74.6 ± 0.5", "75.0", "1.11", "0.80M"]
    assert rows[2] == ["A & B", "75.7", "", "0.87", ""]


def test_latex_escapes_and_marks(table):
    text = tables.render(table, "latex")
    assert r"\multicolumn{2}{c}{C100}" in text
    assert r"plain\_1 & 74.6 $\pm$ 0.5 {\scriptsize(75.0)}" in text
    assert r"A \& B & \textbf{75.7} & \textcolor{blue}{\textbf{0.87}}" in text
    assert text.count(r"\midrule") == 2
    assert r"5\% of it" in text
    assert text.count("{") == text.count("}")


def test_html_escapes(table):
    text = tables.render(table, "html")
    assert "A &amp; B" in text
    assert '<th colspan="2" scope="colgroup" class=group>C100</th>' in text
    assert text.count("<tbody>") == 2
    assert text.count("<tr>") == text.count("</tr>") == 4


def test_wrong_formats_and_rows_are_refused(table):
    with pytest.raises(
        ValueError, match="expected one of markdown, csv, latex, text, html, received 'pdf'"
    ):
        tables.render(table, "pdf")
    with pytest.raises(ValueError, match=r"expected 2 cells .* received 1"):
        tables.make("t", ["a", "b"], [[["only one"]]])


def test_the_overview_marks_the_best_and_leaves_blanks():
    results = {
        "plain": {"digits/accuracy": 0.9, "digits/nll": 0.5, "digits/ece": 0.02,
                  "far/auroc/confidence": 0.7, "far/auroc/total": 0.8},
        "s2d": [
            {"digits/accuracy": 0.8, "digits/nll": 0.3, "digits/ece": 0.01,
             "far/auroc/confidence": 0.8, "far/auroc/total": 0.7, "far/auroc/knowledge": 0.6},
            {"digits/accuracy": 0.9, "digits/nll": 0.5, "digits/ece": 0.01,
             "far/auroc/confidence": 0.8, "far/auroc/total": 0.7, "far/auroc/knowledge": 0.6},
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
