"""The pictures: every function draws one figure, writes it as a PNG and returns its path."""

import numpy as np
from matplotlib import ticker

from s2d_tf import metrics
from s2d_tf.evaluation import drawing
from s2d_tf.evaluation.curves import precision_recall_curves, risk_coverage_curves, roc_curves
from s2d_tf.evaluation.drawing import FAINT, INK, PALETTE
from s2d_tf.evaluation.names import LONG_NAMES, UNCERTAINTIES

__all__ = [
    "example_images",
    "precision_recall_curves",
    "reliability_diagram",
    "risk_coverage_curves",
    "roc_curves",
    "system_histograms",
    "uncertainty_histograms",
]

OVERCONFIDENT, UNDERCONFIDENT = "#F3BE99", "#A9D3EE"
# A set that is almost all in one bin would make the others invisible.
MAX_PEAK_RATIO = 4.0


def reliability_diagram(named, path, num_bins=15):
    """Accuracy against confidence for each model, over how many examples have that confidence.

    Args:
        named: `{label: (probs [n, K], labels [n])}`.
        path: PNG file to write.
        num_bins: equal-width bins, as in the calibration error.
    """
    with drawing.frame(path, (2, len(named)), (2.6, 1.75), height_ratios=(3, 1)) as axes:
        for column, (label, (probs, labels)) in enumerate(named.items()):
            upper, lower = axes[0][column], axes[1][column]
            curve = metrics.reliability_curve(probs, labels, num_bins)
            error = metrics.expected_calibration_error(probs, labels, num_bins)
            width, filled = 1.0 / num_bins, curve.count > 0
            accuracy, confidence = curve.accuracy[filled], curve.confidence[filled]
            centre, base = curve.edges[:-1][filled] + width / 2, np.minimum(accuracy, confidence)
            bars = {"width": width * 0.92, "align": "center"}
            upper.bar(centre, base, color=PALETTE[0], **bars)
            for gap, color in (
                (confidence - accuracy, OVERCONFIDENT),
                (accuracy - confidence, UNDERCONFIDENT),
            ):
                upper.bar(centre, np.maximum(gap, 0.0), bottom=base, color=color, **bars)
            upper.plot([0, 1], [0, 1], color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
            upper.set_title(label)
            upper.text(0.04, 0.95, f"ECE {100 * error:.1f}%", transform=upper.transAxes, va="top")
            lower.bar(centre, curve.count[filled] / curve.count.sum(), color="#9A9A9A", **bars)
            for axis in (upper, lower):
                drawing.percent_ticks(axis)
                axis.yaxis.set_major_formatter(ticker.PercentFormatter(1, 0))
            upper.set_ylim(0, 1)
            upper.tick_params(labelbottom=False)
            lower.set_xlabel("Confidence")
        axes[0][0].set_ylabel("Accuracy")
        axes[1][0].set_ylabel("Share")
        highest = max(axis.get_ylim()[1] for axis in axes[1])
        for axis in axes[1]:
            axis.set_ylim(0, highest)
        for axis in (axis for row in axes for axis in row[1:]):
            axis.tick_params(labelleft=False)
        names = {"accuracy": PALETTE[0], "overconfident by": OVERCONFIDENT}
        drawing.legend(axes, {**names, "underconfident by": UNDERCONFIDENT})
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
    columns = uncertainties or [key for key in (*UNCERTAINTIES[1:], "score") if key in held]
    with drawing.frame(path, (len(named), len(columns)), (2.5, 1.55)) as axes:
        for row, (label, sets) in enumerate(named.items()):
            for column, key in enumerate(columns):
                axis = axes[row][column]
                shown = {name: scores[key] for name, scores in sets.items() if key in scores}
                _histogram(axis, shown, num_bins, fill=True)
                if row == 0:
                    axis.set_title(LONG_NAMES.get(key, key.capitalize()))
                if row == len(named) - 1:
                    axis.set_xlabel("nats")
            axes[row][0].set_ylabel(label, fontweight="bold")
        drawing.legend(axes, list(dict.fromkeys(n for sets in named.values() for n in sets)))
    return path


def system_histograms(named, path, uncertainties=UNCERTAINTIES[1:], num_bins=50):
    """The paper's histogram figure: a row per data set, a column per uncertainty, models as lines.

    Args:
        named: `{label: {set name: scores by uncertainty}}`, all with the same sets.
        path: PNG file to write.
        uncertainties: the columns.
        num_bins: bins, common to all models and sets of a column, so that rows can be compared.
    """
    sets = list(dict.fromkeys(name for scores in named.values() for name in scores))
    with drawing.frame(path, (len(sets), len(uncertainties)), (2.5, 1.7)) as axes:
        for column, key in enumerate(uncertainties):
            everything = [
                scores[key]
                for found in named.values()
                for scores in found.values()
                if key in scores
            ]
            high = float(np.quantile(np.concatenate(everything), 0.999)) if everything else 1.0
            for row, name in enumerate(sets):
                shown = {
                    label: found[name].get(key) for label, found in named.items() if name in found
                }
                _histogram(axes[row][column], shown, num_bins, fill=False, high=high)
            axes[0][column].set_title(LONG_NAMES[key])
            axes[-1][column].set_xlabel("nats")
        for row, name in enumerate(sets):
            axes[row][0].set_ylabel(name, fontweight="bold")
        drawing.legend(axes, list(named), lines=True)
    return path


def example_images(rows, path):
    """Rows of pictures with a line of text below each.

    Args:
        rows: `{row title: [(uint8 image [H, W, C], caption), ...]}`.
        path: PNG file to write.
    """
    columns = max(len(examples) for examples in rows.values())
    with drawing.frame(path, (len(rows), columns), (1.12, 1.62)) as axes:
        for axis in axes.ravel():
            axis.set_axis_off()
        for row, (title, examples) in enumerate(rows.items()):
            # A blank keeps the height, and the title, wider than the picture below, no width.
            axes[row][0].set_title(" ")
            place = {"transform": axes[row][0].transAxes, "in_layout": False}
            axes[row][0].text(0.0, 1.06, title, fontsize=10, fontweight="bold", **place)
            for axis, (image, caption) in zip(axes[row], examples, strict=False):
                gray = image.shape[-1] == 1
                axis.imshow(image[..., 0] if gray else image, cmap="gray" if gray else None,
                            vmin=0, vmax=255, interpolation="nearest")  # fmt: skip
                axis.text(0.5, -0.04, caption, transform=axis.transAxes, ha="center", va="top",
                          fontsize=6.5, linespacing=1.25)  # fmt: skip
    return path


def _histogram(axis, sets, num_bins, fill, high=None):
    """Densities over one another; a set of None keeps its colour but is not there."""
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    held = {i: values for i, values in enumerate(sets.values()) if values is not None}
    if not held:
        axis.text(0.5, 0.5, "does not decompose", transform=axis.transAxes, ha="center",
                  va="center", color=FAINT)  # fmt: skip
        axis.set_xticks([])
        return
    if high is None:
        # A few far examples, left out, would squeeze all others into one bin.
        high = float(np.quantile(np.concatenate(list(held.values())), 0.999))
    edges = np.linspace(0.0, high or 1.0, num_bins + 1)
    peaks = []
    for index, values in held.items():
        counts, _ = np.histogram(values, edges)
        density = counts / len(values)
        if fill:
            axis.stairs(density, edges, fill=True, color=PALETTE[index], alpha=0.45)
        axis.stairs(density, edges, linewidth=1.2, **drawing.line_style(index))
        peaks.append(density.max())
    top = max(peaks)
    if top > 1.2 * MAX_PEAK_RATIO * min(peaks):
        top = MAX_PEAK_RATIO * min(peaks)
        axis.text(0.99, 1.0, f"cut: the peak is\n{max(peaks) / top:.1f} times as high", va="top",
                  ha="right", transform=axis.transAxes, color=FAINT, fontsize=7)  # fmt: skip
    axis.set_xlim(0.0, edges[-1])
    axis.set_ylim(0.0, 1.05 * top)
    axis.xaxis.set_major_locator(ticker.MaxNLocator(4))


def _as_dict(scores):
    return scores if isinstance(scores, dict) else {"score": np.asarray(scores)}
