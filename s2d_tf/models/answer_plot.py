"""The picture of some answers: each input, its class, and a bar for its uncertainty."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure

from s2d_tf._types import ArrayLike, PathLike

if TYPE_CHECKING:
    from s2d_tf.models.answers import Answers

DATA, KNOWLEDGE = "#56B4E9", "#D55E00"
"""Of Okabe and Ito's colors, which people with any color vision can tell apart."""
INK, FAINT = "#222222", "#666666"
ROW, IMAGE, TEXT, LETTER, BARS = 0.62, 0.62, 2.75, 0.082, 4.6
"""Inches: height of a row, width of an image, of a text, of a letter of a name, of the bars."""


class Shown(Figure):
    """A picture that notebooks show, whether pyplot is in use or not."""

    def _repr_png_(self):
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=110)
        return content.getvalue()


def draw(
    answers: Answers,
    inputs: ArrayLike | None = None,
    labels: ArrayLike | None = None,
    count: int = 12,
    by: str | None = None,
    path: PathLike | None = None,
) -> Figure:
    """See `Answers.plot`."""
    size = len(answers["probs"])
    if by is not None and (by not in answers or np.ndim(answers[by]) != 1):
        known = [name for name, value in answers.items() if np.ndim(value) == 1]
        raise ValueError(f"by: expected one of {known}, received {by!r}. Choose one of these.")
    order = np.arange(size) if by is None else np.argsort(-answers[by], kind="stable")
    if by == "confidence":
        order = order[::-1]  # the least certain first, as for the others
    chosen = order[:count]
    images, texts = _kind(inputs, size)
    names = _names(answers, chosen, labels)
    left = IMAGE if images is not None else TEXT
    bars = left + 0.3 + LETTER * max(len(line) for name in names for line in name.split("\n"))
    width, height = bars + BARS + 0.2, ROW * len(chosen) + 1.05
    figure = Shown(figsize=(width, height))
    bottom = 0.6 / height
    for place, index in enumerate(chosen):
        at = 0.1 / width, bottom + ROW * (len(chosen) - 1 - place) / height
        row = figure.add_axes((*at, (left - 0.08) / width, (ROW - 0.06) / height))
        row.set_axis_off()
        if images is not None:
            gray: dict[str, Any] = {"cmap": "gray", "vmin": 0, "vmax": images.max() or 1}
            pixels = _shown_pixels(images[index], images)
            row.imshow(pixels, interpolation="nearest", **(gray if pixels.ndim == 2 else {}))
        else:
            text = f"input {index}" if texts is None else texts[index]
            shown = textwrap.shorten(text, 86, placeholder=" …")
            row.text(0, 0.5, textwrap.fill(shown, 44), va="center", fontsize=8, color=INK)
    area = bars / width, bottom, BARS / width, ROW * len(chosen) / height
    _bars(figure.add_axes(area), answers, chosen, names)
    if path is not None:
        figure.savefig(path, dpi=160)
    return figure


def _names(answers, chosen, labels):
    """Class and confidence of each row, with the true class below where that is another."""
    found, certain = answers["probs"][chosen].argmax(axis=-1), answers["confidence"][chosen]
    names = [f"{answers.name_of(k)}  {p:.0%}" for k, p in zip(found, certain, strict=True)]
    if labels is None:
        return names
    return [
        name if real in (label, -1) else f"{name}\nis {answers.name_of(real)}"
        for name, label, real in zip(names, found, np.asarray(labels)[chosen], strict=True)
    ]


def _bars(axis, answers, chosen, names):
    rows = np.arange(len(chosen))
    total, data, knowledge = (answers[name][chosen] for name in ("total", "data", "knowledge"))
    # One categorical prediction does not decompose.
    if np.any(answers["knowledge"]):
        axis.barh(rows, data, 0.5, color=DATA, label="data uncertainty")
        axis.barh(rows, knowledge, 0.5, left=data, color=KNOWLEDGE, label="knowledge uncertainty")
    else:
        axis.barh(rows, total, 0.5, color=DATA, label="total uncertainty")
    limit = max(float(total.max()), 0.05 * np.log(answers["probs"].shape[-1])) * 1.16
    for row, value in zip(rows, total, strict=True):
        axis.text(value + 0.012 * limit, row, f"{value:.3f}", va="center", fontsize=8, color=INK)
    axis.set(xlim=(0, limit), ylim=(len(chosen) - 0.5, -0.5), xlabel="uncertainty in nats")
    axis.set_yticks(rows, names, fontsize=9, color=INK)
    axis.tick_params(axis="y", length=0)
    axis.tick_params(axis="x", labelsize=8, colors=FAINT)
    axis.xaxis.label.set(size=9, color=FAINT)
    for side in ("top", "right", "left"):
        axis.spines[side].set_visible(False)
    axis.legend(
        loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False, fontsize=9, borderpad=0
    )


def _kind(inputs, size):
    """The inputs as images, or as texts, or neither."""
    if inputs is None or isinstance(inputs, (dict, tuple)):
        return None, None
    array = np.asarray(inputs) if not isinstance(inputs, list) else np.array(inputs, object)
    if len(array) != size:
        raise ValueError(
            f"inputs: expected {size}, one for each answer, received {len(array)}. Pass those that "
            "were predicted."
        )
    if array.ndim == 4 and array.shape[-1] in (1, 3) and array.dtype.kind in "uif":
        return array, None
    first = array.flat[0] if array.ndim <= 2 and array.dtype.kind in "OSU" else None
    if isinstance(first, (str, bytes)) and array.size == size:
        decoded = (
            t.decode(errors="replace") if isinstance(t, bytes) else str(t) for t in array.flat
        )
        return None, list(decoded)
    return None, None


def _shown_pixels(image, images):
    """Pixels as matplotlib takes them: gray as a matrix, colors from 0 to 1."""
    if image.shape[-1] == 1:
        return image[..., 0]
    if images.dtype == np.uint8:
        return image
    low, high = min(float(images.min()), 0.0), float(images.max())
    high = 255.0 if 1 < high <= 255 and low == 0 else max(high, low + 1e-9)
    return np.clip((image - low) / (high - low), 0, 1)
