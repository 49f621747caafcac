"""Figures: files that open, of sensible size, with what they are to show in them."""

import matplotlib.image
import numpy as np
import pytest
from matplotlib import figure as matplotlib_figure

from s2d_tf.evaluation import figures


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved, to look into."""
    kept = []
    original = matplotlib_figure.Figure.savefig

    def saving(self, *args, **kwargs):
        kept.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(matplotlib_figure.Figure, "savefig", saving)
    return kept


def scores(num, decomposes=True, seed=0):
    rng = np.random.default_rng(seed)
    total = rng.gamma(2.0, 0.5, num)
    found = {"confidence": total / 2, "total": total}
    return found | ({"data": 0.8 * total, "knowledge": 0.2 * total} if decomposes else {})


def check(path, drawn):
    image = matplotlib.image.imread(path)
    height, width, _ = image.shape
    assert 300 < width < 2600
    assert 200 < height < 2600
    assert image.std() > 0.02  # Not an empty sheet.
    (only,) = drawn
    return only


def texts(figure):
    found = [text.get_text() for axis in figure.axes for text in axis.texts]
    found += [axis.get_title() for axis in figure.axes]
    for legend in figure.legends:
        found += [text.get_text() for text in legend.get_texts()]
    return found


def test_reliability_diagram(tmp_path, drawn):
    probs = np.array([[0.9, 0.1]] * 10 + [[0.7, 0.3]] * 10)
    labels = np.array([0] * 6 + [1] * 4 + [0] * 10)
    path = figures.reliability_diagram({"plain": (probs, labels)}, tmp_path / "a" / "r.png")
    figure = check(path, drawn)
    # 60% right at 90%, and all right at 70%.
    assert "ECE 30.0%" in texts(figure)
    assert "plain" in texts(figure)
    bars = {round(b.get_x() + b.get_width() / 2, 3): b for b in figure.axes[0].containers[0]}
    assert bars[round(13.5 / 15, 3)].get_height() == pytest.approx(0.6)
    assert bars[round(10.5 / 15, 3)].get_height() == pytest.approx(0.7)


def test_histograms_of_each_model(tmp_path, drawn):
    named = {
        "plain": {"known": scores(500, False), "far": scores(400, False, 1)},
        "s2d": {"known": scores(500), "far": scores(400, seed=1)},
    }
    figure = check(figures.uncertainty_histograms(named, tmp_path / "h.png"), drawn)
    assert len(figure.axes) == 6
    assert texts(figure).count("does not decompose") == 2
    assert {"known", "far"} <= set(texts(figure))


def test_the_papers_histogram_figure(tmp_path, drawn):
    named = {
        name: {"CIFAR-100": scores(500, seed=i), "SVHN": scores(800, seed=i + 9)}
        for i, name in enumerate(["Deep ensemble", "S2D", "S2D Deep ensemble", "H2D-Gauss"])
    }
    figure = check(
        figures.uncertainty_histograms(named, tmp_path / "p.png", by_dataset=True), drawn
    )
    assert len(figure.axes) == 6
    assert [axis.get_ylabel() for axis in figure.axes[::3]] == ["CIFAR-100", "SVHN"]
    for above, below in zip(figure.axes[:3], figure.axes[3:], strict=True):
        assert above.get_xlim() == below.get_xlim()
        assert len(above.patches) == len(below.patches) == 4
    assert set(named) <= set(texts(figure))


def test_a_spike_is_cut_and_said_so(tmp_path, drawn):
    wide = np.linspace(0, 1, 1000)
    named = {"m": {"known": {"total": np.full(1000, 0.001)}, "far": {"total": wide}}}
    figure = check(figures.uncertainty_histograms(named, tmp_path / "h.png"), drawn)
    assert any("times as high" in text for text in texts(figure))


def test_roc_curves(tmp_path, drawn):
    named = {
        "plain": (scores(300, False), scores(200, False, 1)),
        "s2d": (scores(300), scores(200, seed=1)),
    }
    figure = check(figures.roc_curves(named, tmp_path / "c.png"), drawn)
    assert len(figure.axes) == 4
    assert [len(axis.lines) for axis in figure.axes] == [2, 2, 1, 1]


def test_risk_coverage_curves_end_at_the_error_rate(tmp_path, drawn):
    errors = np.arange(300) % 4 == 0
    figure = check(
        figures.risk_coverage_curves({"s2d": (scores(300), errors)}, tmp_path / "r.png"), drawn
    )
    for axis in figure.axes:
        assert axis.lines[0].get_xdata()[-1] == 1.0
        assert axis.lines[0].get_ydata()[-1] == pytest.approx(0.25)
