"""A contact sheet: some pictures of a dataset with their labels, as a PNG file."""

import os
import pathlib

import numpy as np

from s2d_tf import files

_COLUMNS = 10


def write_preview(
    path: str | os.PathLike,
    images: np.ndarray,
    labels: np.ndarray,
    *,
    title: str,
    class_names: tuple[str, ...] | None = None,
    count: int = 100,
) -> None:
    """Writes a sheet of up to `count` pictures, spread over the classes, to `path`.

    Args:
        path: the PNG file to write.
        images: uint8 [N, H, W, C] with 1 or 3 channels.
        labels: integers [N].
        title: text above the pictures.
        class_names: names to show in place of the numbers of the labels.
        count: how many pictures at most.
    """
    # Not pyplot: it would choose a window system and keep the figure.
    from matplotlib.figure import Figure

    path = pathlib.Path(path)
    if path.suffix.lower() != ".png":
        raise ValueError(f"preview: expected a file name ending in .png; received {str(path)!r}.")
    chosen = _spread_over_classes(np.asarray(labels), count)
    rows = -(-len(chosen) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS, 1.15 * rows + 0.4), dpi=100, layout="constrained")
    figure.suptitle(title, fontsize=10)
    axes = figure.subplots(rows, _COLUMNS, squeeze=False).ravel()
    for axis in axes:
        axis.set_axis_off()
    for axis, index in zip(axes, chosen, strict=False):
        image = np.broadcast_to(images[index], [*images.shape[1:3], 3])
        axis.imshow(image, interpolation="nearest")
        name = class_names[labels[index]] if class_names else str(labels[index])
        axis.set_title("no label" if labels[index] < 0 else name, fontsize=6, pad=2)
    with files.written_beside(path) as temporary:
        figure.savefig(temporary, format="png")


def _spread_over_classes(labels: np.ndarray, count: int) -> np.ndarray:
    """Positions of `count` examples: the first of every class, then the second, and so on."""
    if np.all(labels == labels[0]):
        return np.unique(np.linspace(0, len(labels) - 1, min(count, len(labels))).astype(int))
    by_class = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels[by_class])) + 1])
    sizes = np.diff(np.append(starts, len(labels)))
    rank_in_class = np.arange(len(labels)) - np.repeat(starts, sizes)
    return by_class[np.lexsort([labels[by_class], rank_in_class])][:count]
