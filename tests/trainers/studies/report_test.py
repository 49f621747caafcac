"""Reports of runs: whole pages with all that they should show."""

import html.parser

import pytest

from s2d_tf.evaluation import figures
from s2d_tf.trainers import studies
from s2d_tf.trainers.studies import report


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(figures, "DPI", 30)


def test_pictures_show_what_matters_most():
    variants = ["mc", "individual", "s2d_swag", "ensemble_20", "h2d_gauss", "en2d", "s2d"]
    ordered = sorted(variants, key=report._importance)
    assert ordered == ["individual", "s2d", "h2d_gauss", "mc", "s2d_swag", "en2d", "ensemble_20"]


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
def test_the_page_is_whole_and_fetches_nothing(evaluated, tmp_path):
    path = studies.write_report(evaluated[0], tmp_path / "report", log=lambda _: None)
    page = Page(path.read_text(encoding="utf-8"))
    assert page.open == []
    assert not [tag for tag, _ in page.tags if tag == "script"]
    addresses = [value for _, a in page.tags for key, value in a.items() if key in ("src", "href")]
    assert {address.split(":")[0].split(";")[0][:1] for address in addresses} <= {"#", "d"}
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
