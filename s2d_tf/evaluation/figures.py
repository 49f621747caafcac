"""The figures: every function draws one, writes it as a PNG and returns its path."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
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
            gap = np.nan_to_num(curve.confidence - curve.accuracy)
            accuracy = np.nan_to_num(curve.accuracy)
            bars = {"x": curve.edges[:-1] + 0.5 / num_bins, "width": 0.92 / num_bins}
            upper.bar(height=accuracy, color=PALETTE[0], **bars)
            colors = np.where(gap > 0, OVERCONFIDENT, UNDERCONFIDENT)
            upper.bar(height=gap, bottom=accuracy, color=colors, **bars)
            upper.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            upper.set_title(label)
            upper.text(0.04, 0.95, f"ECE {100 * error:.1f}%", transform=upper.transAxes, va="top")
            lower.bar(height=curve.count / curve.count.sum(), color=FAINT, **bars)
            _percent(lower.xaxis, "Confidence", 1)
        _percent(axes[0][0].yaxis, "Accuracy", 1)
        _percent(axes[1][0].yaxis, "Share")
        legend = {
            "accuracy": PALETTE[0],
            "overconfident by": OVERCONFIDENT,
            "underconfident by": UNDERCONFIDENT,
        }
        _legend(axes, [Patch(color=color, label=name) for name, color in legend.items()])
    return path


def uncertainty_histograms(
    named: dict[str, dict[str, dict[str, np.ndarray]]], path: PathLike, num_bins: int = 50
) -> PathLike:
    """Histograms of each uncertainty, one over another in each panel, all as high as the panel.

    Args:
        named: `{row: {label: scores by uncertainty}}`, such as a row for each model with the
            datasets over one another; or, as in the paper, a row for each dataset with the models.
            A column has one scale. A panel without scores says that they do not decompose.
        path: PNG file to write.
        num_bins: bins over the range that holds all but the largest thousandth.
    """
    rows = list(named.values())
    held = {key for own in rows for scores in own.values() for key in scores}
    columns = [key for key in UNCERTAINTIES[1:] if key in held]
    labels = list(dict.fromkeys(label for own in rows for label in own))
    with _frame(path, (len(rows), len(columns)), (2.5, 1.6), sharex="col") as axes:
        for column, key in enumerate(columns):
            drawn = [scores[key] for own in rows for scores in own.values() if key in scores]
            # A few far examples would squeeze all others into one bin.
            edges = np.linspace(0.0, np.quantile(np.concatenate(drawn), 0.999) or 1.0, num_bins + 1)
            for axis, own in zip(axes[:, column], rows, strict=True):
                _histograms(axis, {n: s[key] for n, s in own.items() if key in s}, edges, labels)
            axes[0][column].set_title(LONG_NAMES[key])
            axes[-1][column].set_xlabel("nats")
        for axis, name in zip(axes[:, 0], named, strict=True):
            axis.set_ylabel(name, fontweight="bold")
        _legend(axes, _lines(labels))
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
    return curves(panels, path, "Known images flagged", "OOD images found", percent=True, top=1.0)


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
    """Panels side by side, in each a line for every model, or differences as points with bars.

    Args:
        panels: `{title: {label: (x, y)}}`; panels without lines are left out. `(x, y, yerr)` makes
            points with error bars, and a line at 0.
        path: PNG file to write.
        xlabel, ylabel: titles of the axes.
        percent: whether both axes are fractions, shown in percent.
        top: upper end of the vertical axis.
    """
    panels = {title: lines for title, lines in panels.items() if lines}
    labels = list(dict.fromkeys(label for lines in panels.values() for label in lines))
    with _frame(path, (1, len(panels)), (2.3, 2.2), sharey=percent) as axes:
        for axis, (title, lines) in zip(axes[0], panels.items(), strict=True):
            for label, (x, y, *errors) in lines.items():
                style = _line_style(labels.index(label)) | ({"linestyle": ""} if errors else {})
                axis.errorbar(x, y, *errors, marker="" if percent else ".", **style)
                axis.axhline(0, color=FAINT, linewidth=0.8, visible=bool(errors))
            axis.set(title=title, xlabel=xlabel)
            axis.grid(color=GRID, linewidth=0.8)
            if percent:
                _percent(axis.xaxis, xlabel, 1)
        if percent:
            _percent(axes[0][0].yaxis, ylabel, top)
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
        width, height = panel[0] * grid[1] + 0.5, panel[1] * grid[0] + 0.6
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure.subplots(*grid, squeeze=False, **options)
        figure.savefig(path, dpi=DPI)


def _line_style(index):
    """Color and dashes of the line with this index; all of the first 16 differ."""
    repeated, color = divmod(index, len(PALETTE))
    return {"color": PALETTE[color], "linestyle": DASHES[repeated % len(DASHES)]}


def _lines(names):
    return [Line2D([], [], label=name, **_line_style(i)) for i, name in enumerate(names)]


def _legend(axes, handles):
    """One legend for the whole figure, above it."""
    figure = axes[0][0].figure
    room = max(1, int(figure.get_size_inches()[0] / INCHES_PER_NAME))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), room))


def _percent(axis, name, top=None):
    """An axis of fractions from 0 on, in percent."""
    axis.set_label_text(name)
    axis.set_major_formatter(ticker.PercentFormatter(1, 0))
    axis.set_major_locator(ticker.MaxNLocator(2))
    axis.axes.set(**{f"{axis.axis_name}lim": (0, top)})


def _histograms(axis, series, edges, labels):
    """Densities over one another; a label has the same color in all panels."""
    axis.set(yticks=[], xlim=edges[[0, -1]])
    axis.spines["left"].set_visible(False)
    for label, values in series.items():
        # Heights of their own: a dataset that is almost all in one bin would hide the others.
        density = np.histogram(values, edges)[0]
        style = _line_style(labels.index(label))
        axis.stairs(density / max(1, density.max()), edges, linewidth=1.2, **style)
        axis.stairs(density / max(1, density.max()), edges, fill=True, alpha=0.15, **style)
    if not series:
        axis.text(0.5, 0.5, "does not decompose", transform=axis.transAxes, ha="center",
                  va="center", color=FAINT)  # fmt: skip
