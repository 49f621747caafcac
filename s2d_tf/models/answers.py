"""What `predict_uncertainty` returns: a dict of arrays that a person can read and plot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from s2d_tf._types import ArrayLike, PathLike

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_ROWS = 10
MAX_NAME = 24
MAX_SET = 3
"""Names of a prediction set that are printed; larger sets are counted."""


class Answers(dict):
    """A dict of NumPy arrays, one row for each input, that prints as a table.

    Args:
        values: `{name: array}`, as `uncertainty.from_members` and fitted steps name them.
        class_names: one for each class, where they are known.

    Example:

    >>> Answers({"probs": np.array([[0.9, 0.1]]), "total": np.array([0.325])}, ["cat", "dog"])
    Answers for 1 input, 2 classes
       class   total
    0  cat    0.3250
    """

    def __init__(
        self,
        values: Mapping[str, np.ndarray] | None = None,
        class_names: Sequence[str] | None = None,
    ) -> None:
        super().__init__(values or {})
        # Not as it is: Keras wraps the lists of a model, and those cannot be copied.
        self.class_names = None if class_names is None else tuple(class_names)

    def __repr__(self) -> str:
        if not self:
            return "Answers for no inputs"
        size = len(next(iter(self.values())))
        shown = range(min(size, MAX_ROWS))
        columns = [["", *map(str, shown)]]
        if "probs" in self:
            names = [self.name_of(label) for label in self["probs"][: len(shown)].argmax(axis=-1)]
            columns.append(["class", *names])
        for name, values in self.items():
            if name != "probs":
                columns.append([name, *(self._cell(value) for value in values[: len(shown)])])
        sides = [str.ljust if i < 2 and "probs" in self else str.rjust for i in range(len(columns))]
        widths = [max(map(len, column)) for column in columns]
        lines = [
            "  ".join(
                side(cell, width) for side, cell, width in zip(sides, row, widths, strict=True)
            ).rstrip()
            for row in zip(*columns, strict=True)
        ]
        classes = f", {self['probs'].shape[-1]} classes" if "probs" in self else ""
        head = f"Answers for {size:,} input{'s' if size != 1 else ''}{classes}"
        rest = [f"... {size - MAX_ROWS:,} more"] if size > MAX_ROWS else []
        return "\n".join([head, *lines, *rest])

    def name_of(self, label: int) -> str:
        """The name of a class, short enough for a table; its number where it has none."""
        name = str(label if self.class_names is None else self.class_names[label])
        return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"

    def plot(
        self,
        inputs: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        count: int = 12,
        by: str | None = None,
        path: PathLike | None = None,
    ) -> Figure:
        """Draws inputs beside their class, confidence and uncertainty.

        Args:
            inputs: what was predicted: images `[n, height, width, channels]` or texts `[n]`;
                anything else, and `None`, is shown by its number.
            labels: true class numbers, to mark wrong answers.
            count: how many to draw.
            by: a key, such as "total" or "knowledge", to draw those with the highest first;
                `None`: the first ones.
            path: a PNG, PDF or SVG file to write as well.

        Returns:
            matplotlib's picture, which notebooks show and `savefig` writes.

        Example:

        ```python
        model.predict_uncertainty(images).plot(images, by="knowledge")
        ```
        """
        from s2d_tf.models import answer_plot  # It brings matplotlib.

        return answer_plot.draw(self, inputs, labels, count, by, path)

    def _cell(self, value):
        if np.ndim(value):
            if value.dtype != bool:
                return f"{list(value.shape)}"
            inside = [self.name_of(int(label)) for label in np.flatnonzero(value)]
            return ", ".join(inside) if len(inside) <= MAX_SET else f"{len(inside)} classes"
        if isinstance(value, np.bool_):
            return "yes" if value else "no"
        if not isinstance(value, np.floating):
            return str(value)
        return "<0.0001" if 0 < value < 5e-5 else f"{value:.4f}"
