"""The pictures: every function draws one figure, writes it as a PNG and returns its path."""

import contextlib
import pathlib

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from s2d_tf import metrics
from s2d_tf.evaluation.names import LONG_NAMES, UNCERTAINTIES

# Okabe and Ito's colours, which people with any colour vision can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#8C6D1F")
INK, FAINT = "#222222", "#888888"
OVERCONFIDENT, UNDERCONFIDENT = "#F3BE99", "#A9D3EE"
DPI = 160
# A set that is almost all in one bin would make the others invisible.
MAX_PEAK_RATIO = 4.0
STYLE = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "lines.linewidth": 1.6,
}


def reliability_diagram(named, path, num_bins=15):
    """Accuracy against confidence for each model, over how many examples have that confidence.

    Args:
        named: `{label: (probs [n, K], labels [n])}`.
        path: PNG file to write.
        num_bins: equal-width bins, as in the calibration error.
    """
    with _figure(path, (2, len(named)), (2.6, 1.75), height_ratios=(3, 1)) as axes:
        for column, (label, (probs, labels)) in enumerate(named.items()):
            upper, lower = axes[0][column], axes[1][column]
            curve = metrics.reliability_curve(probs, labels, num_bins)
            error = metrics.expected_calibration_error(probs, labels, num_bins)
            width, filled = 1.0 / num_bins, curve.count > 0
            left = curve.edges[:-1][filled]
            accuracy, confidence = curve.accuracy[filled], curve.confidence[filled]
            common = {"width": width * 0.92, "align": "center"}
            centre, base = left + width / 2, np.minimum(accuracy, confidence)
            upper.bar(centre, base, color=PALETTE[0], **common)
            for gap, color in (
                (confidence - accuracy, OVERCONFIDENT),
                (accuracy - confidence, UNDERCONFIDENT),
            ):
                upper.bar(centre, np.maximum(gap, 0.0), bottom=base, color=color, **common)
            upper.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            upper.set_title(label)
            upper.text(0.04, 0.95, f"ECE {100 * error:.1f}%", transform=upper.transAxes, va="top")
            lower.bar(centre, curve.count[filled] / curve.count.sum(), color="#9A9A9A", **common)
            for axis in (upper, lower):
                axis.set_xlim(0, 1)
                axis.xaxis.set_major_formatter(ticker.PercentFormatter(1, 0))
                axis.yaxis.set_major_formatter(ticker.PercentFormatter(1, 0))
                axis.set_xticks([0, 0.5, 1])
            upper.set_ylim(0, 1)
            upper.tick_params(labelbottom=False)
            lower.set_xlabel("Confidence")
        names = {"accuracy": PALETTE[0], "overconfident by": OVERCONFIDENT}
        _legend(axes, {**names, "underconfident by": UNDERCONFIDENT})
        axes[0][0].set_ylabel("Accuracy")
        axes[1][0].set_ylabel("Share")
        highest = max(axis.get_ylim()[1] for axis in axes[1])
        for axis in axes[1]:
            axis.set_ylim(0, highest)
        for axis in (a for row in axes for a in row[1:]):
            axis.tick_params(labelleft=False)
    return path


def uncertainty_histograms(named, path, uncertainties=None, num_bins=50):
    """Histograms of each uncertainty for each model, the data sets over one another.

    Args:
        named: `{label: {set name: scores}}`; scores are a dict by uncertainty, or one array.
        path: PNG file to write.
        uncertainties: which to draw, one column each; by default what the scores hold, except
            confidence. A model without one has an empty panel that says so.
        num_bins: bins over the range that holds all but the largest thousandth.
    """
    named = {
        label: {name: _as_dict(scores) for name, scores in sets.items()}
        for label, sets in named.items()
    }
    held = {key for sets in named.values() for scores in sets.values() for key in scores}
    columns = (
        uncertainties
        or [key for key in (*UNCERTAINTIES[1:], "score", "confidence") if key in held][:3]
    )
    with _figure(path, (len(named), len(columns)), (2.5, 1.55)) as axes:
        for row, (label, sets) in enumerate(named.items()):
            for column, key in enumerate(columns):
                axis = axes[row][column]
                _histogram(axis, {name: s[key] for name, s in sets.items() if key in s}, num_bins)
                if row == 0:
                    axis.set_title(LONG_NAMES.get(key, key.capitalize()))
                if row == len(named) - 1:
                    axis.set_xlabel("nats")
            axes[row][0].set_ylabel(label, fontweight="bold")
        names = list(dict.fromkeys(name for sets in named.values() for name in sets))
        _legend(axes, dict(zip(names, PALETTE, strict=False)))
    return path


def _histogram(axis, sets, num_bins):
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    if not sets:
        axis.text(0.5, 0.5, "does not decompose", transform=axis.transAxes, ha="center",
                  va="center", color=FAINT)  # fmt: skip
        axis.set_xticks([])
        return
    everything = np.concatenate(list(sets.values()))
    # A few far examples would squeeze all others into one bin.
    high = float(np.quantile(everything, 0.999)) or 1.0
    edges = np.linspace(0.0, high, num_bins + 1)
    peaks = []
    for index, values in enumerate(sets.values()):
        density, _ = np.histogram(np.minimum(values, high), edges, density=True)
        axis.stairs(density, edges, fill=True, color=PALETTE[index], alpha=0.45)
        axis.stairs(density, edges, color=PALETTE[index], linewidth=1.1)
        peaks.append(density.max())
    top = min(max(peaks), MAX_PEAK_RATIO * min(peaks))
    if top < max(peaks):
        axis.text(0.02, 1.0, f"cut; the peak is {max(peaks) / top:.0f} times as high", va="top",
                  transform=axis.transAxes, color=FAINT, fontsize=7)  # fmt: skip
    axis.set_xlim(0.0, high)
    axis.set_ylim(0.0, 1.05 * top)
    axis.xaxis.set_major_locator(ticker.MaxNLocator(4))


def _as_dict(scores):
    return scores if isinstance(scores, dict) else {"score": np.asarray(scores)}


def _legend(axes, colors):
    """One legend for the whole figure, above it."""
    patches = [Patch(color=color, label=name) for name, color in colors.items()]
    axes[0][0].figure.legend(handles=patches, loc="outside upper center", ncols=len(patches))


@contextlib.contextmanager
def _figure(path, grid, panel, height_ratios=None):
    """Yields a grid of axes of a figure that is written to `path` at the end.

    Args:
        path: PNG file.
        grid: rows and columns.
        panel: width and height of one, in inches.
        height_ratios: of the rows, if not equal.
    """
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}):
        # Not pyplot: a library must neither open windows nor keep figures alive.
        size = (panel[0] * grid[1] + 0.5, panel[1] * grid[0] + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(*grid, squeeze=False, height_ratios=height_ratios)
        yield axes
        figure.savefig(path, dpi=DPI)
