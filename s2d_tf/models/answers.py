"""What `predict_uncertainty` returns: a dict of arrays that prints as a table and can plot."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from s2d_tf._types import Array, PathLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 10
MAX_NAME = 24
MAX_SET = 3
"""Names of a prediction set that are printed; larger sets are counted."""

DATA_COLOR, KNOWLEDGE_COLOR = "#56B4E9", "#D55E00"
"""Of Okabe and Ito's colors, which people with any color vision can tell apart."""


class Answers(dict):
    """A dict of NumPy arrays, one row for each input.

    Args:
        values: `{name: array}`, as `uncertainty.from_members` and fitted steps name them. From
            "probs" follows "label", the most likely class.
        class_names: one for each class, where they are known.

    Example:

    >>> Answers({"probs": np.array([[0.9, 0.1]]), "total": np.array([0.325])}, ["cat", "dog"])
    Answers for 1 input
       label   total
    0    cat  0.3250
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(values or {})
        if "probs" in self:
            self["label"] = self["probs"].argmax(axis=-1)
        # Not as it is: Keras wraps the lists of a model, and those cannot be copied.
        self.class_names = None if class_names is None else tuple(class_names)

    def __repr__(self) -> str:
        size = len(next(iter(self.values()), ()))
        names = [name for name in self if name not in ("probs", "label")]
        names = ["label", *names] if "label" in self else names
        table = [["", *names]]
        table += [
            [str(row), *(self._cell(name, self[name][row]) for name in names)]
            for row in range(min(size, MAX_ROWS))
        ]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = [
            "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
            for row in table
        ]
        more = [f"... {size - MAX_ROWS:,} more"] if size > MAX_ROWS else []
        return "\n".join([f"Answers for {size:,} input{'s' * (size != 1)}", *lines, *more])

    def name_of(self, label: int) -> str:
        """The name of a class, short enough for a table; its number where it has none."""
        name = str(label if self.class_names is None else self.class_names[label])
        return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"

    def _cell(self, name, value):
        if name == "label":
            return self.name_of(value)
        if np.ndim(value) and value.dtype == bool:
            members = [self.name_of(int(label)) for label in np.flatnonzero(value)]
            return ", ".join(members) if len(members) <= MAX_SET else f"{len(members)} classes"
        if isinstance(value, np.bool_):
            return "yes" if value else "no"
        if not isinstance(value, np.floating):
            return str(list(value.shape) if np.ndim(value) else value)
        return "<0.0001" if 0 < value < 5e-5 else f"{value:.4f}"

    def plot(
        self,
        inputs: Array | None = None,
        labels: Array | None = None,
        count: int = 12,
        by: str | None = None,
        path: PathLike | None = None,
    ) -> Figure:
        """Draws inputs beside their class, confidence and uncertainty.

        Args:
            inputs: what was predicted: images `[n, height, width, channels]` or texts `[n]`;
                `None` and all else is shown by its number.
            labels: true class numbers, to mark wrong answers.
            count: how many to draw.
            by: a key, such as "total" or "knowledge", to draw those with the highest first (of
                "confidence", the lowest); `None`: the first ones.
            path: a PNG, PDF or SVG file to write as well.

        Returns:
            matplotlib's figure.

        Example:

        ```python
        model.predict_uncertainty(images).plot(images, by="knowledge")
        ```
        """
        import matplotlib.pyplot as plt  # Here: a prediction does not need it.

        values = np.arange(len(self["label"])) if by is None else self.get(by)
        if values is None or values.ndim != 1:
            known = [name for name, value in self.items() if value.ndim == 1]
            raise ValueError(f"by: expected one of {known}, received {by!r}. Pass one of them.")
        if inputs is not None and len(inputs) != len(values):
            raise ValueError(
                f"inputs: expected {len(values)}, one for each answer, received {len(inputs)}. "
                "Pass those that were predicted."
            )
        ascending = by in (None, "confidence")
        chosen = np.argsort(values if ascending else -values, kind="stable")[:count]
        grid = {"width_ratios": [1, 4], "wspace": 0.6}
        figure, axes = plt.subplots(
            len(chosen), 2, figsize=(9, 0.7 * len(chosen) + 0.8), squeeze=False, gridspec_kw=grid
        )
        limit = 1.16 * max(float(self["total"][chosen].max()), 0.05)
        for (left, right), index in zip(axes, chosen, strict=True):
            left.set_axis_off()
            right.set(xlim=(0, limit), yticks=[0], xticks=[])
            right.spines[["top", "right", "bottom"]].set_visible(False)
            _draw_input(left, None if inputs is None else np.asarray(inputs[index]), index)
            name = f"{self.name_of(self['label'][index])}  {self['confidence'][index]:.0%}"
            if labels is not None and labels[index] not in (self["label"][index], -1):
                name += f"\nis {self.name_of(labels[index])}"
            right.set_yticklabels([name])
            data, total = self["data"][index], self["total"][index]
            right.barh(0, data, color=DATA_COLOR, label="data uncertainty")
            right.barh(0, total - data, left=data, color=KNOWLEDGE_COLOR, label="knowledge")
            right.text(total, 0, f" {total:.3f} nats", va="center", fontsize=8)
        axes[0, 1].legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
        plt.close(figure)  # A notebook shows what is returned, once.
        if path is not None:
            figure.savefig(path, dpi=160, bbox_inches="tight")
        return figure


def _draw_input(axis, value, index):
    """An image or a text; anything else by its number."""
    if value is not None and value.ndim == 3 and value.shape[-1] in (1, 3):
        if value.dtype != np.uint8:  # to the 0 to 1 of matplotlib
            value = (value - value.min()) / max(float(value.max() - value.min()), 1e-9)
        axis.imshow(value, cmap="gray", vmin=0, vmax=255 if value.dtype == np.uint8 else 1)
        return
    text = f"input {index}"
    if value is not None and value.dtype.kind in "OSU" and value.size == 1:
        text = value.item()
        text = text.decode(errors="replace") if isinstance(text, bytes) else text
    axis.text(1, 0.5, textwrap.fill(text[:86], 30), ha="right", va="center", fontsize=8)
