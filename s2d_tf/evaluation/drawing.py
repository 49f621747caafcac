"""The common look of all figures."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Iterator
from typing import Any

import matplotlib
from matplotlib import ticker
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from s2d_tf import files
from s2d_tf._types import PathLike

# Okabe and Ito's colors, which people with any color vision can tell apart.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#444444", "#8C6D1F")
DASHES = ("-", (0, (5, 2)))
INK, FAINT = "#222222", "#666666"
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


def line_style(index: int) -> dict[str, Any]:
    """Color and dashes of the line with this index; all of the first 16 differ."""
    dashes = DASHES[index // len(PALETTE) % len(DASHES)]
    return {"color": PALETTE[index % len(PALETTE)], "linestyle": dashes}


def legend(axes: Any, names: Any, lines: bool = False) -> None:
    """One legend for the whole figure, above it.

    Args:
        axes: the grid of axes.
        names: names in the order of the palette, or `{name: color}`.
        lines: whether the figure shows lines and not areas.
    """
    handles: list[Any]
    if lines:
        handles = [Line2D([], [], label=name, **line_style(i)) for i, name in enumerate(names)]
    else:
        colors = names if isinstance(names, dict) else dict(zip(names, PALETTE, strict=False))
        handles = [Patch(color=color, label=name) for name, color in colors.items()]
    figure = axes[0][0].figure
    room = max(1, int(figure.get_size_inches()[0] / INCHES_PER_NAME))
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), room))


def percent_label(axis: Any, name: str, top: float | None = None) -> None:
    """Names the vertical axis, a fraction from 0 to `top`, and shows it in percent."""
    axis.set(ylabel=name, ylim=(0, top))
    axis.yaxis.set_major_formatter(ticker.PercentFormatter(1, 0))


def percent_ticks(axis: Any, name: str) -> None:
    """0, 50 and 100% below a panel, the outer ones inside it: neighbors' labels do not touch."""
    axis.set(xlabel=name, xlim=(0, 1))
    axis.set_xticks([0, 0.5, 1], ["0%", "50%", "100%"])
    for label, side in zip(axis.get_xticklabels(), ("left", "center", "right"), strict=True):
        label.set_horizontalalignment(side)


@contextlib.contextmanager
def frame(
    path: PathLike, grid: tuple[int, int], panel: tuple[float, float], **options: Any
) -> Iterator[Any]:
    """Yields a grid of axes of a figure that is written to `path` at the end.

    Args:
        path: PNG file.
        grid: rows and columns.
        panel: width and height of one, in inches.
        **options: of `Figure.subplots`, such as `sharey` or `height_ratios`.
    """
    style: dict[Any, Any] = {**matplotlib.rcParamsDefault, "backend": "agg", **STYLE}
    with files.room_for(path), matplotlib.rc_context(style):
        pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
        # Not pyplot: a library must neither open windows nor keep figures alive.
        size = (panel[0] * grid[1] + 0.5, panel[1] * grid[0] + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        yield figure.subplots(*grid, squeeze=False, **options)
        figure.savefig(path, dpi=DPI)
