"""The report for every reader: dark pages, screen readers, small screens, weak contrast."""

import html.parser
import itertools
import re

import numpy as np
import pytest

from s2d_tf.evaluation import figures, tables
from s2d_tf.trainers.studies import report


@pytest.fixture(scope="module")
def css(project_root):
    return (project_root / "trainers" / "studies" / "report.css").read_text(encoding="utf-8")


def luminance(color):
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def contrast(first, second):
    """As the Web Content Accessibility Guidelines define it."""
    low, high = sorted([luminance(first), luminance(second)])
    return (high + 0.05) / (low + 0.05)


def test_texts_have_contrast_by_day_and_by_night(css):
    parts = css.partition("@media")[0], css.partition("prefers-color-scheme: dark")[2]
    light, dark = (dict(re.findall(r"--(\w+): (#\w{6})", part)) for part in parts)
    assert light.keys() == dark.keys()
    assert luminance(dark["paper"]) < 0.05 < luminance(light["paper"])
    texts, grounds = ("ink", "faint", "accent", "warm", "good"), ("paper", "hover")
    for colors, text, ground in itertools.product((light, dark), texts, grounds):
        assert contrast(colors[text], colors[ground]) >= 4.5, (text, ground)
    # No color but those of the two lists, and the white under figures.
    assert set(re.findall(r"#[0-9a-f]{3,6}\b", css)) == {*light.values(), *dark.values(), "#ffffff"}
    assert "rgba" not in css
    assert contrast(figures.FAINT, "#ffffff") >= 4.5


class Tags(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))


METRICS = {
    "plain": {"far/auroc/confidence": 0.8, "far/auroc/total": 0.9},
    "s2d": {
        "far/auroc/confidence": 0.85,
        "far/auroc/total": 0.88,
        "far/auroc/data": 0.86,
        "far/auroc/knowledge": 0.95,
    },
}


@pytest.fixture(scope="module")
def table():
    keys = tables.uncertainty_keys({"far/auroc": "OOD %AUROC"})
    return tables.metric_table(METRICS, keys, "Detection")


def test_tables_have_captions_and_scopes(table):
    text = report.Section("Tables", [table]).body
    tags = Tags(text).found
    assert "<caption>Detection</caption>" in text
    assert text.index("<caption>") < text.index("<thead>")
    scopes = [attrs.get("scope") for tag, attrs in tags if tag == "th"]
    assert scopes == ["colgroup", *["col"] * 5, "row", "row"]
    # Also a table that has no caption of its own.
    nameless = tables.make("", ["Network"], [[["wrn"]]])
    assert "<caption>Runs</caption>" in report.Section("x", [nameless]).body


def test_uncertainties_are_spelled_out(table):
    text = report.Section("Tables", [table]).body
    for name in ("Confidence", "Total uncertainty", "Data uncertainty", "Knowledge uncertainty"):
        assert f">{name}</th>" in text
    assert not re.search(r"\b(TU|DU|KU|Conf\.)", text)


def test_the_best_value_is_marked_whichever_column_it_is_in(table):
    marked = {(row[0].text, cell.text) for row in table.rows for cell in row if cell.best_overall}
    assert marked == {("s2d", "95.0")}  # alone in its column
    best = {(row[0].text, cell.text) for row in table.rows for cell in row if cell.best}
    assert best == {("s2d", "85.0"), ("plain", "90.0")}
    # The smallest where that is better, and never between metrics.
    keys = tables.uncertainty_keys({"far/fpr_at_95_recall": "x", "far/auroc": "y"})
    values = {"s2d": dict(zip(keys, (0.3, 0.2, 0.4, 0.5, 0.7, 0.6, 0.5, 0.4), strict=True))}
    (row,) = tables.metric_table(values, keys).rows
    assert [cell.text for cell in row if cell.best_overall] == ["20.0", "70.0"]


def test_the_mark_is_not_a_color_alone(css):
    assert re.search(r"b\.overall \{[^}]*underline", css)
    assert 'class="overall"' in report.MARKS
