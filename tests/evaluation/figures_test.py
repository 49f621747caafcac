"""Figures: files that open, with what they are to show in them."""

import matplotlib.image
import numpy as np
import pytest
from matplotlib import figure as matplotlib_figure

from s2d_tf.evaluation import figures


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are saved, to look into."""
    kept, original = [], matplotlib_figure.Figure.savefig

    def saving(self, *args, **kwargs):
        kept.append(self)
        return original(self, *args, **kwargs)

    monkeypatch.setattr(matplotlib_figure.Figure, "savefig", saving)
    return kept


def scores(num, decomposes=True, seed=0):
    total = np.random.default_rng(seed).gamma(2.0, 0.5, num)
    found = {"confidence": total / 2, "total": total}
    return found | ({"data": 0.8 * total, "knowledge": 0.2 * total} if decomposes else {})


def check(path, drawn):
    assert matplotlib.image.imread(path).std() > 0.02  # Not an empty sheet.
    (only,) = drawn
    return only


def texts(figure):
    found = [text.get_text() for axis in figure.axes for text in axis.texts]
    found += [axis.get_title() for axis in figure.axes]
    return found + [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_reliability_diagram(tmp_path, drawn):
    probs = np.array([[0.9, 0.1]] * 10 + [[0.7, 0.3]] * 10)
    labels = np.array([0] * 6 + [1] * 4 + [0] * 10)
    path = figures.reliability_diagram({"plain": (probs, labels)}, tmp_path / "a" / "r.png")
    figure = check(path, drawn)
    # 60% right at 90%, and all right at 70%.
    assert {"ECE 30.0%", "plain"} <= set(texts(figure))
    accuracy, gap = ([bar.get_height() for bar in bars] for bars in figure.axes[0].containers)
    assert [accuracy[10], gap[10]] == pytest.approx([1.0, -0.3])
    assert [accuracy[13], gap[13]] == pytest.approx([0.6, 0.3])
    assert not any(accuracy[:10] + gap[:10])


def test_histograms(tmp_path, drawn):
    named = {
        "plain": {"known": scores(500, False), "far": scores(400, False, 1)},
        "s2d": {"known": scores(500), "far": scores(400, seed=1) | {"total": np.full(400, 0.01)}},
    }
    figure = check(figures.uncertainty_histograms(named, tmp_path / "h.png"), drawn)
    assert [axis.get_ylabel() for axis in figure.axes[::3]] == ["plain", "s2d"]
    assert texts(figure).count("does not decompose") == 2
    assert {"known", "far", "Knowledge uncertainty"} <= set(texts(figure))
    for above, below in zip(figure.axes[:3], figure.axes[3:], strict=True):
        assert above.get_xlim() == below.get_xlim()
    # A spike hides nothing: every histogram is as high as the panel.
    for axis in (figure.axes[0], *figure.axes[3:]):
        assert [stairs.get_data()[0].max() for stairs in axis.patches] == [1.0] * 4


def test_risk_coverage_curves_end_at_the_error_rate(tmp_path, drawn):
    errors = np.arange(300) % 4 == 0
    path = figures.risk_coverage_curves({"s2d": (scores(300), errors)}, tmp_path / "r.png")
    for axis in check(path, drawn).axes:
        assert axis.lines[0].get_xdata()[-1] == 1.0
        assert axis.lines[0].get_ydata()[-1] == pytest.approx(0.25)
