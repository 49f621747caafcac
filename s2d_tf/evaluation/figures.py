"""The figures: every function draws one, writes it as a PNG and returns its path."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib
import numpy as np
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from s2d_tf import files, metrics
from s2d_tf._types import PathLike
from s2d_tf.evaluation.names import LONG_NAMES, UNCERTAINTIES

# Okabe and Ito's colors, which people with any color vision can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#8C6D1F")
DASHES = ("-", (0, (5, 2)))
INK, FAINT, GRID = "#222222", "#666666", "#EEEEEE"
OVERCONFIDENT, UNDERCONFIDENT = "#F3BE99", "#A9D3EE"
DPI = 160
INCHES_PER_NAME = 1.75
# A dataset that is almost all in one bin would make the others invisible.
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
    "lines.linewidth": 1.5,
}


def reliability_diagram(
    named: dict[str, tuple[np.ndarray, np.ndarray]], path: PathLike, num_bins: int = 15
) -> PathLike:
    """Accuracy against confidence for each model, over how many examples have that confidence.

    Args:
        named: `{label: (probs [n, K], labels [n])}`.
        path: PNG file to write.
        num_bins: equal-width bins, as in the calibration error.
    """
    shared = {"sharex": "col", "sharey": "row", "height_ratios": (3, 1)}
    with _frame(path, (2, len(named)), (2.6, 1.75), **shared) as axes:
        for (upper, lower), (label, pair) in zip(axes.T, named.items(), strict=True):
            curve = metrics.reliability_curve(*pair, num_bins)
            error = metrics.expected_calibration_error(*pair, num_bins)
            filled = curve.count > 0
            accuracy, confidence = curve.accuracy[filled], curve.confidence[filled]
            center = curve.edges[:-1][filled] + 0.5 / num_bins
            base, bars = np.minimum(accuracy, confidence), {"width": 0.92 / num_bins}
            upper.bar(center, base, color=PALETTE[0], **bars)
            upper.bar(center, confidence - base, bottom=base, color=OVERCONFIDENT, **bars)
            upper.bar(center, accuracy - base, bottom=base, color=UNDERCONFIDENT, **bars)
            upper.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            upper.set_title(label)
            upper.text(0.04, 0.95, f"ECE {100 * error:.1f}%", transform=upper.transAxes, va="top")
            lower.bar(center, curve.count[filled] / curve.count.sum(), color="#9A9A9A", **bars)
            _percent_below(lower, "Confidence")
        _percent_beside(axes[0][0], "Accuracy", 1)
        _percent_beside(axes[1][0], "Share")
        colors = {
            "accuracy": PALETTE[0],
            "overconfident by": OVERCONFIDENT,
            "underconfident by": UNDERCONFIDENT,
        }
        _legend(axes, [Patch(color=color, label=name) for name, color in colors.items()])
    return path


def uncertainty_histograms(
    named: dict[str, dict[str, dict[str, np.ndarray]]],
    path: PathLike,
    uncertainties: Sequence[str] | None = None,
    num_bins: int = 50,
    by_dataset: bool = False,
) -> PathLike:
    """Histograms of each uncertainty: a row per model with the datasets over one another.

    Args:
        named: `{label: {dataset title: scores by uncertainty}}`.
        path: PNG file to write.
        uncertainties: which to draw, one column each; by default what the scores hold, except
            confidence. A model without one has an empty panel that says so.
        num_bins: bins over the range that holds all but the largest thousandth.
        by_dataset: draw a row per dataset with the models as lines, all rows on one scale.
    """
    rows: dict[str, dict] = {}
    for label, sets in named.items():
        for name, scores in sets.items():
            row, series = (name, label) if by_dataset else (label, name)
            rows.setdefault(row, {})[series] = scores
    held = {key for sets in rows.values() for scores in sets.values() for key in scores}
    columns = uncertainties or [key for key in UNCERTAINTIES[1:] if key in held]
    with _frame(path, (len(rows), len(columns)), (2.5, 1.7 if by_dataset else 1.55)) as axes:
        for column, key in enumerate(columns):
            drawn = [[scores.get(key) for scores in own.values()] for own in rows.values()]
            common = _range([s for own in drawn for s in own]) if by_dataset else None
            for axis, own in zip(axes[:, column], drawn, strict=True):
                _histogram(axis, own, num_bins, not by_dataset, common or _range(own))
            axes[0][column].set_title(LONG_NAMES.get(key, key))
            axes[-1][column].set_xlabel("nats")
        for axis, name in zip(axes[:, 0], rows, strict=True):
            axis.set_ylabel(name, fontweight="bold")
        names = list(dict.fromkeys(name for own in rows.values() for name in own))
        patches = [Patch(color=c, label=n) for n, c in zip(names, PALETTE, strict=False)]
        _legend(axes, _lines(names) if by_dataset else patches)
    return path


def roc_curves(named: dict[str, tuple[dict, dict]], path: PathLike) -> PathLike:
    """Share of OOD examples found against share of known ones flagged, by each uncertainty.

    Args:
        named: `{label: (ID scores, OOD scores)}`, both dicts by uncertainty.
        path: PNG file to write.
    """
    panels = {
        LONG_NAMES[u]: {
            label: metrics.roc_curve(known[u], unknown[u])[:2]
            for label, (known, unknown) in named.items()
            if u in known
        }
        for u in UNCERTAINTIES
    }
    labels = "Known images flagged", "OOD images found"
    return curves(panels, path, *labels, percent=True, top=1.0)


def risk_coverage_curves(named: dict[str, tuple[dict, np.ndarray]], path: PathLike) -> PathLike:
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

    panels = {
        LONG_NAMES[u]: {n: curve(s[u], errors) for n, (s, errors) in named.items() if u in s}
        for u in UNCERTAINTIES
    }
    return curves(panels, path, "Answered", "Error rate of the answered", percent=True)


def curves(
    panels: dict[str, dict[str, tuple]],
    path: PathLike,
    xlabel: str,
    ylabel: str = "",
    percent: bool = False,
    top: float | None = None,
) -> PathLike:
    """Panels side by side, in each a line for every model.

    Args:
        panels: `{title: {label: (x, y)}}`; panels without lines are left out.
        path: PNG file to write.
        xlabel, ylabel: titles of the axes.
        percent: whether both axes are fractions, shown in percent.
        top: upper end of the vertical axis.
    """
    panels = {title: lines for title, lines in panels.items() if lines}
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    with _frame(path, (1, len(panels)), (2.3, 2.2), sharey=percent) as axes:
        for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
            for label, (x, y) in lines.items():
                marker = "" if percent else "."
                axis.plot(x, y, marker=marker, **_line_style(labels.index(label)))
            axis.set_title(title, fontsize=10 if percent else 9)
            axis.grid(color=GRID, linewidth=0.8)
            axis.set_xlabel(xlabel)
            if percent:
                _percent_below(axis, xlabel)
        if percent:
            _percent_beside(axes[0][0], ylabel, top)
        _legend(axes, _lines(labels))
    return path


@contextlib.contextmanager
def _frame(
    path: PathLike, grid: tuple[int, int], panel: tuple[float, float], **options: Any
) -> Iterator[Any]:
    """Yields a grid of axes of a figure that is written to `path` at the end.

    `panel` is the width and height of one axis in inches; `options` are those of `subplots`.
    """
    style: dict[Any, Any] = {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}
    with files.room_for(path), matplotlib.rc_context(style):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        # Not pyplot: a library must neither open windows nor keep figures alive.
        size = (panel[0] * grid[1] + 0.5, panel[1] * grid[0] + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        yield figure.subplots(*grid, squeeze=False, **options)
        figure.savefig(path, dpi=DPI)


def _line_style(index):
    """Color and dashes of the line with this index; all of the first 16 differ."""
    dashes = DASHES[index // len(PALETTE) % len(DASHES)]
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": dashes}


def _lines(names):
    return [Line2D([], [], label=name, **_line_style(i)) for i, name in enumerate(names)]


def _legend(axes, handles):
    """One legend for the whole figure, above it."""
    figure = axes[0][0].figure
    room = max(1, int(figure.get_size_inches()[0] / INCHES_PER_NAME))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), room))


def _percent_beside(axis, name, top=None):
    axis.set(ylabel=name, ylim=(0, top))
    axis.yaxis.set_major_formatter(ticker.PercentFormatter(1, 0))


def _percent_below(axis, name):
    """0, 50 and 100% below a panel, the outer ones inside it: neighbors' labels do not touch."""
    axis.set(xlabel=name, xlim=(0, 1))
    axis.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    for label, side in zip(axis.get_xticklabels(), ("left", "center", "right"), strict=True):
        label.set_horizontalalignment(side)


def _range(series):
    """Up to where to draw: a few far examples would squeeze all others into one bin."""
    held = [values for values in series if values is not None]
    return (float(np.quantile(np.concatenate(held), 0.999)) if held else 0.0) or 1.0


def _histogram(axis, series, num_bins, fill, high):
    """Densities over one another; one that is None keeps its color but is not drawn."""
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    edges = np.linspace(0.0, high, num_bins + 1)
    held = {i: values for i, values in enumerate(series) if values is not None}
    densities = {i: np.histogram(values, edges)[0] / len(values) for i, values in held.items()}
    for index, density in densities.items():
        if fill:
            axis.stairs(density, edges, fill=True, color=PALETTE[index], alpha=0.45)
        axis.stairs(density, edges, linewidth=1.2, **_line_style(index))
    if not densities:
        axis.text(0.5, 0.5, "does not decompose", transform=axis.transAxes, ha="center",
                  va="center", color=FAINT)  # fmt: skip
        axis.set_xticks([])
        return
    peaks = [density.max() for density in densities.values()]
    top = max(peaks)
    if top > 1.2 * MAX_PEAK_RATIO * min(peaks):
        top = MAX_PEAK_RATIO * min(peaks)
        axis.text(0.99, 1.0, f"cut: the peak is\n{max(peaks) / top:.1f} times as high", va="top",
                  ha="right", transform=axis.transAxes, color=FAINT, fontsize=7)  # fmt: skip
    axis.set(xlim=(0.0, high), ylim=(0.0, 1.05 * top))
    axis.xaxis.set_major_locator(ticker.MaxNLocator(4))
