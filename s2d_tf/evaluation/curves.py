"""Curves over all thresholds: ROC, precision and recall, risk and coverage."""

import numpy as np
from matplotlib import ticker

from s2d_tf import metrics
from s2d_tf.evaluation import drawing
from s2d_tf.evaluation.names import LONG_NAMES, UNCERTAINTIES

_MAX_POINTS = 1500


def roc_curves(named, path):
    """Share of OOD examples found against share of known ones flagged, by each uncertainty.

    Args:
        named: `{label: (ID scores, OOD scores)}`, both dicts by uncertainty.
        path: PNG file to write.
    """

    def curve(pair):
        false_positive_rate, recall, _ = metrics.roc_curve(*pair)
        return false_positive_rate, recall

    labels = "Known images flagged", "OOD images found"
    return _detection(named, path, curve, labels, diagonal=True)


def precision_recall_curves(named, path):
    """Precision against recall of OOD detection, by each uncertainty; arguments as `roc_curves`."""

    def curve(pair):
        precision, recall, _ = metrics.precision_recall_curve(*pair)
        return recall[::-1], precision[::-1]

    return _detection(named, path, curve, ("OOD images found", "Precision"))


def risk_coverage_curves(named, path):
    """Error rate among the answered against the share that is answered, by each uncertainty.

    Args:
        named: `{label: (scores by uncertainty, errors)}`.
        path: PNG file to write.
    """

    def curve(scores, errors):
        found = metrics.risk_coverage_curve(scores, errors)
        # Below a hundredth of the examples the rate is that of a handful.
        shown = found.coverage >= 0.01
        return found.coverage[shown], found.selective_risk[shown]

    def draw(axis, uncertainty):
        for index, (scores, errors) in enumerate(named.values()):
            if uncertainty in scores:
                axis.plot(
                    *_thinned(*curve(scores[uncertainty], errors)), **drawing.line_style(index)
                )

    held = [u for u in UNCERTAINTIES if any(u in scores for scores, _ in named.values())]
    return _panels(named, path, held, draw, ("Answered", "Error rate of the answered"), top=None)


def _detection(named, path, curve, labels, diagonal=False):
    def draw(axis, uncertainty):
        for index, (known, unknown) in enumerate(named.values()):
            if uncertainty in known:
                points = curve((known[uncertainty], unknown[uncertainty]))
                axis.plot(*_thinned(*points), **drawing.line_style(index))
        if diagonal:
            axis.plot([0, 1], [0, 1], color=drawing.FAINT, linewidth=0.8, linestyle=":")

    held = [u for u in UNCERTAINTIES if any(u in known for known, _ in named.values())]
    return _panels(named, path, held, draw, labels, top=1.0)


def _panels(named, path, uncertainties, draw, labels, top):
    with drawing.frame(path, (1, len(uncertainties)), (2.3, 2.2)) as axes:
        for axis, uncertainty in zip(axes[0], uncertainties, strict=True):
            draw(axis, uncertainty)
            axis.set_title(LONG_NAMES[uncertainty])
            axis.set_xlabel(labels[0])
            drawing.percent_ticks(axis)
            axis.set_ylim(0, top)
            axis.yaxis.set_major_formatter(ticker.PercentFormatter(1, 0))
            axis.grid(color="#EEEEEE", linewidth=0.8)
        highest = max(axis.get_ylim()[1] for axis in axes[0])
        for axis in axes[0]:
            axis.set_ylim(0, highest)
        for axis in axes[0][1:]:
            axis.tick_params(labelleft=False)
        axes[0][0].set_ylabel(labels[1])
        drawing.legend(axes, list(named), lines=True)
    return path


def _thinned(x, y):
    """At most so many points; no eye sees more, and both ends stay."""
    kept = np.unique(np.linspace(0, len(x) - 1, min(len(x), _MAX_POINTS)).round().astype(int))
    return x[kept], y[kept]
