"""Reports of runs and of models in memory: whole pages with all that they should show."""

import html.parser

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data, models
from s2d_tf.evaluation import figures
from s2d_tf.trainers import studies
from s2d_tf.trainers.studies import report_figures


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(figures, "DPI", 30)
    monkeypatch.setattr(report_figures, "NUM_EXAMPLES", 2)


@pytest.fixture(scope="module")
def model(network):
    return network(models.S2DClassifier)


@pytest.fixture(scope="module")
def arrays():
    return tuple(part[:300] for part in data.load_arrays("digits", "test"))


@pytest.fixture(scope="module")
def photos():
    return data.load_arrays("digits_photos", "test")[0][:200]


@pytest.mark.usefixtures("coarse")
def test_a_report_on_own_data(model, arrays, photos, tmp_path, network):
    plain = network(models.Classifier, seed=1)
    named = {"S2D": model, "<Plain>": plain}
    unknown = {"mine": photos.astype(np.float32)}
    known = tf.data.Dataset.from_tensor_slices(arrays).batch(64)
    path = studies.write_model_report(named, known, tmp_path, unknown, "own", num_resamples=20)
    page = path.read_text(encoding="utf-8")
    for text in ("&lt;Plain&gt; minus S2D", "2 models on own.", "mine %AUROC", "300 examples"):
        assert text in page
    assert "<Plain>" not in page
    assert data.fingerprint(*arrays) in page
    # Histograms, reliability, two curves, risk, and the most uncertain images of both sets.
    assert page.count("<img ") == 7 == len(list((tmp_path / "figures").iterdir()))


@pytest.mark.usefixtures("coarse")
def test_a_report_on_a_table_has_no_images(tmp_path):
    import keras

    x = keras.Input([2])
    model = models.Classifier(keras.Model(x, keras.layers.Dense(3)(x)), 3)
    data = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10) % 3
    path = studies.write_model_report({"one": model}, data, tmp_path)
    page = path.read_text(encoding="utf-8")
    assert "Differences" not in page
    assert page.count("<img ") == 2
    with pytest.raises(ValueError, match=r"models: expected 1 to 8.*received 0"):
        studies.write_model_report({}, data, tmp_path)


@pytest.mark.parametrize(
    ("low", "high", "expected"), [(0, 255, 255), (0, 1, 255), (-1, 1, 255), (0, 0.5, 127)]
)
def test_images_of_other_numbers_are_shown(low, high, expected):
    image = np.linspace(low, high, 27).reshape(3, 3, 3).astype(np.float32)
    shown = report_figures._as_pixels(image)
    assert (shown.dtype, shown.min(), shown.max()) == (np.uint8, 0, expected)


def test_pictures_show_what_matters_most():
    variants = ["mc", "individual", "s2d_swag", "ensemble_20", "h2d_gauss", "en2d", "s2d"]
    ordered = sorted(variants, key=report_figures._importance)
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
    # Histograms, reliability, risk, and for each OOD set two curves; examples of every set.
    assert len(images) == 3 + 2 * 2 + 3
    assert all(a["alt"] for a in images)
    text = " ".join(page.text)
    for word in ("S2D Individual", "Deep ensemble of 3", "Section 5.1", "not run", "AUGRC"):
        assert word in text
    assert "predictions" not in text
