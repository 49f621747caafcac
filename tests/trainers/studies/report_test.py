"""Reports of runs: whole pages that fetch nothing, with tables for screen readers."""

import html.parser
import re
import shutil
import subprocess

import pytest

from s2d_tf.evaluation import figures, tables
from s2d_tf.trainers import studies
from s2d_tf.trainers.studies import report


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(figures, "DPI", 30)


class Page(html.parser.HTMLParser):
    """Every tag with its attributes, every anchor, and tags that were never closed."""

    VOID = {"meta", "link", "img", "br"}  # noqa: RUF012

    def __init__(self, text):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.usefixtures("coarse")
def test_the_page_is_whole_and_fetches_nothing(evaluated, tmp_path, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path / "cache"))
    given = evaluated[0][0], "wrn_10_2_s2.s2d.digits"
    path = studies.write_report(given, tmp_path / "report", log=lambda _: None)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert not [tag for tag, _ in page.tags if tag == "script"]
    addresses = [value for _, a in page.tags for key, value in a.items() if key in ("src", "href")]
    assert all(a.startswith(("#", "data:")) for a in addresses)
    assert "http" not in "".join(page.text) + "".join(a[:30] for a in addresses)
    identifiers = {a["id"] for _, a in page.tags if "id" in a}
    assert {a[1:] for a in addresses if a.startswith("#")} <= identifiers
    images = [a for tag, a in page.tags if tag == "img"]
    # Histograms, reliability, risk, and for each OOD set a curve.
    assert len(images) == 3 + 2
    assert all(a["alt"] for a in images)
    text = " ".join(page.text)
    for word in ("S2D Individual", "Deep ensemble of 3", "Section 5.1", "not run", "AUGRC"):
        assert word in text
    assert "predictions" not in text


@pytest.mark.browser
@pytest.mark.usefixtures("coarse")
def test_no_table_is_cut_off_at_1280_pixels(evaluated, tmp_path, monkeypatch):
    chromium = shutil.which("chromium") or pytest.skip("needs chromium on the PATH")
    monkeypatch.setattr("s2d_tf.trainers.studies.report.draw_figures", lambda *_: [])
    given = *evaluated[0], *(f"fast_resnet_half.s2d{each}.cifar100" for each in ("", "_ensemble"))
    path = studies.write_report(given, tmp_path, log=lambda _: None)
    script = "document.title = [...document.querySelectorAll('.scroll:has(table)')].map(each =>"
    script += " each.scrollWidth - each.clientWidth)"
    path.write_text(f"{path.read_text()}<script>{script}</script>")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--dump-dom"]
    dom = subprocess.run(
        [chromium, *flags, path], capture_output=True, text=True, check=True
    ).stdout
    (hidden,) = re.findall("<title>([0-9,]+)</title>", dom)
    assert set(hidden.split(",")) == {"0"}
    assert hidden.count(",") > 5


def test_tables_have_captions_scopes_and_whole_names():
    scores = {"confidence": 0.85, "total": 0.88, "data": 0.86, "knowledge": 0.95}
    metrics = {f"far/auroc/{name}": value for name, value in scores.items()}
    keys = tables.uncertainty_keys({"far/auroc": "OOD %AUROC"})
    table = tables.metric_table({"plain": metrics, "s2d": metrics}, keys, "Detection")
    text = report.Section("Tables", [table]).body
    tags = Page(text).tags
    assert "<caption>Detection</caption>" in text
    scopes = [attrs.get("scope") for tag, attrs in tags if tag == "th"]
    assert scopes == ["colgroup", *["col"] * 5, "row", "row"]
    for name in ("Confidence", "Total uncertainty", "Data uncertainty", "Knowledge uncertainty"):
        assert f">{name}</th>" in text
    assert not re.search(r"\b(TU|DU|KU|Conf\.)", text)
