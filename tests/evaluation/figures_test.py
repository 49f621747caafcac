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


def check(path, drawn):
    assert matplotlib.image.imread(path).std() > 0.02  # Not an empty sheet.
    (only,) = drawn
    return only


def test_reliability_diagram(tmp_path, drawn):
    probs = np.array([[0.9, 0.1]] * 10 + [[0.7, 0.3]] * 10)
    labels = np.array([0] * 6 + [1] * 4 + [0] * 10)
    path = figures.reliability_diagram({"plain": (probs, labels)}, tmp_path / "a" / "r.png")
    figure = check(path, drawn)
    # 60% right at 90%, and all right at 70%.
    assert "ECE 30.0%" in [text.get_text() for text in figure.axes[0].texts]
    accuracy, gap = ([bar.get_height() for bar in bars] for bars in figure.axes[0].containers)
    assert [accuracy[10], gap[10]] == pytest.approx([1.0, -0.3])
    assert [accuracy[13], gap[13]] == pytest.approx([0.6, 0.3])
    assert not any(accuracy[:10] + gap[:10])


def test_risk_coverage_curves_end_at_the_error_rate(tmp_path, drawn):
    errors, total = np.arange(300) % 4 == 0, np.random.default_rng(0).gamma(2.0, 0.5, 300)
    scores = {"confidence": total / 2, "total": total, "data": total / 3, "knowledge": total / 4}
    path = figures.risk_coverage_curves({"s2d": (scores, errors)}, tmp_path / "r.png")
    for axis in check(path, drawn).axes:
        assert axis.lines[0].get_xdata()[-1] == 1.0
        assert axis.lines[0].get_ydata()[-1] == pytest.approx(0.25)
