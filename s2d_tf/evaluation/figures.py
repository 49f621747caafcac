"""The figures: every function draws one, writes it as a PNG and returns its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import ticker

from s2d_tf import metrics
from s2d_tf._types import PathLike
from s2d_tf.evaluation import drawing
from s2d_tf.evaluation.drawing import FAINT, INK, PALETTE
from s2d_tf.evaluation.names import LONG_NAMES, UNCERTAINTIES

OVERCONFIDENT, UNDERCONFIDENT = "#F3BE99", "#A9D3EE"
# A dataset that is almost all in one bin would make the others invisible.
MAX_PEAK_RATIO = 4.0


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
    with drawing.frame(path, (2, len(named)), (2.6, 1.75), **shared) as axes:
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
            drawing.percent_ticks(lower, "Confidence")
        drawing.percent_label(axes[0][0], "Accuracy", 1)
        drawing.percent_label(axes[1][0], "Share")
        drawing.legend(
            axes,
            {
                "accuracy": PALETTE[0],
                "overconfident by": OVERCONFIDENT,
                "underconfident by": UNDERCONFIDENT,
            },
        )
    return path


def uncertainty_histograms(
    named: dict[str, dict[str, Any]],
    path: PathLike,
    uncertainties: Sequence[str] | None = None,
    num_bins: int = 50,
) -> PathLike:
    """Histograms of each uncertainty for each model, the datasets over one another.

    Args:
        named: `{label: {dataset title: scores}}`; scores are a dict by uncertainty, or one array.
        path: PNG file to write.
        uncertainties: which to draw, one column each; by default what the scores hold, except
            confidence. A model without one has an empty panel that says so.
        num_bins: bins over the range that holds all but the largest thousandth.
    """
    rows = {
        label: {
            name: scores if isinstance(scores, dict) else {"score": np.asarray(scores)}
            for name, scores in sets.items()
        }
        for label, sets in named.items()
    }
    held = {key for sets in rows.values() for scores in sets.values() for key in scores}
    columns = uncertainties or [key for key in (*UNCERTAINTIES[1:], "score") if key in held]
    return _histograms(rows, columns, path, num_bins, fill=True)


def system_histograms(
    named: dict[str, dict[str, dict[str, np.ndarray]]],
    path: PathLike,
    uncertainties: Sequence[str] = UNCERTAINTIES[1:],
    num_bins: int = 50,
) -> PathLike:
    """Histograms with a row per dataset, a column per uncertainty, and the models as lines.

    Args:
        named: `{label: {dataset title: scores by uncertainty}}`, all with the same datasets.
        path: PNG file to write.
        uncertainties: the columns.
        num_bins: bins, common to all models and datasets of a column, so that rows compare.
    """
    rows: dict[str, dict] = {}
    for label, sets in named.items():
        for name, scores in sets.items():
            rows.setdefault(name, {})[label] = scores
    return _histograms(rows, uncertainties, path, num_bins, fill=False)


def roc_curves(named: dict[str, tuple[dict, dict]], path: PathLike) -> PathLike:
    """Share of OOD examples found against share of known ones flagged, by each uncertainty.

    Args:
        named: `{label: (ID scores, OOD scores)}`, both dicts by uncertainty.
        path: PNG file to write.
    """
    curves = {
        label: {u: metrics.roc_curve(known[u], unknown[u])[:2] for u in known}
        for label, (known, unknown) in named.items()
    }
    return _panels(curves, path, ("Known images flagged", "OOD images found"), 1.0, diagonal=True)


def precision_recall_curves(named: dict[str, tuple[dict, dict]], path: PathLike) -> PathLike:
    """Precision against recall of OOD detection, by each uncertainty; arguments as `roc_curves`."""
    curves = {
        label: {u: metrics.precision_recall_curve(known[u], unknown[u])[1::-1] for u in known}
        for label, (known, unknown) in named.items()
    }
    return _panels(curves, path, ("OOD images found", "Precision"), 1.0)


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

    curves = {
        label: {u: curve(values, errors) for u, values in scores.items()}
        for label, (scores, errors) in named.items()
    }
    return _panels(curves, path, ("Answered", "Error rate of the answered"))


def example_images(rows: dict[str, list[tuple[np.ndarray, str]]], path: PathLike) -> PathLike:
    """Rows of images with a line of text below each.

    Args:
        rows: `{row title: [(uint8 image [H, W, C], caption), ...]}`.
        path: PNG file to write.
    """
    columns = max(len(examples) for examples in rows.values())
    with drawing.frame(path, (len(rows), columns), (1.5, 2.3)) as axes:
        for axis in axes.ravel():
            axis.set_axis_off()
        for own, (title, examples) in zip(axes, rows.items(), strict=True):
            # A blank keeps the height, and the title, wider than the image below, no width.
            own[0].set_title(" ")
            place = {"transform": own[0].transAxes, "in_layout": False}
            own[0].text(0.0, 1.06, title, fontsize=10, fontweight="bold", **place)
            for axis, (image, caption) in zip(own, examples, strict=False):
                gray = image.shape[-1] == 1
                axis.imshow(image[..., 0] if gray else image, cmap="gray" if gray else None,
                            vmin=0, vmax=255, interpolation="nearest")  # fmt: skip
                axis.text(0.5, -0.04, caption, transform=axis.transAxes, ha="center", va="top",
                          fontsize=9, linespacing=1.25)  # fmt: skip
    return path


def _panels(curves, path, labels, top=None, diagonal=False):
    """A panel for each uncertainty with the lines `{label: {uncertainty: (x, y)}}`."""
    held = [u for u in UNCERTAINTIES if any(u in own for own in curves.values())]
    with drawing.frame(path, (1, len(held)), (2.3, 2.2), sharey=True) as axes:
        for axis, uncertainty in zip(axes[0], held, strict=True):
            for index, own in enumerate(curves.values()):
                if uncertainty in own:
                    axis.plot(*own[uncertainty], **drawing.line_style(index))
            if diagonal:
                axis.plot([0, 1], [0, 1], color=FAINT, linewidth=0.8, linestyle=":")
            axis.set_title(LONG_NAMES[uncertainty])
            axis.grid(color="#EEEEEE", linewidth=0.8)
            drawing.percent_ticks(axis, labels[0])
        drawing.percent_label(axes[0][0], labels[1], top)
        drawing.legend(axes, list(curves), lines=True)
    return path


def _histograms(rows, columns, path, num_bins, fill):
    """A grid of `{row: {series: scores by uncertainty}}`; without `fill` a column has one scale."""
    with drawing.frame(path, (len(rows), len(columns)), (2.5, 1.55 if fill else 1.7)) as axes:
        for column, key in enumerate(columns):
            series = [[scores.get(key) for scores in own.values()] for own in rows.values()]
            common = None if fill else _range([values for own in series for values in own])
            for axis, own in zip(axes[:, column], series, strict=True):
                _histogram(axis, own, num_bins, fill, common or _range(own))
            axes[0][column].set_title(LONG_NAMES.get(key, key.capitalize()))
            axes[-1][column].set_xlabel("nats")
        for axis, name in zip(axes[:, 0], rows, strict=True):
            axis.set_ylabel(name, fontweight="bold")
        names = dict.fromkeys(name for own in rows.values() for name in own)
        drawing.legend(axes, list(names), lines=not fill)
    return path


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
    peaks = [density.max() for density in densities.values()]
    for index, density in densities.items():
        if fill:
            axis.stairs(density, edges, fill=True, color=PALETTE[index], alpha=0.45)
        axis.stairs(density, edges, linewidth=1.2, **drawing.line_style(index))
    if not peaks:
        axis.text(0.5, 0.5, "does not decompose", transform=axis.transAxes, ha="center",
                  va="center", color=FAINT)  # fmt: skip
        axis.set_xticks([])
        return
    top = max(peaks)
    if top > 1.2 * MAX_PEAK_RATIO * min(peaks):
        top = MAX_PEAK_RATIO * min(peaks)
        axis.text(0.99, 1.0, f"cut: the peak is\n{max(peaks) / top:.1f} times as high", va="top",
                  ha="right", transform=axis.transAxes, color=FAINT, fontsize=7)  # fmt: skip
    axis.set(xlim=(0.0, high), ylim=(0.0, 1.05 * top))
    axis.xaxis.set_major_locator(ticker.MaxNLocator(4))
