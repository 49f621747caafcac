"""A contact sheet: some pictures of a dataset with their labels, as a PNG file."""

import os
import pathlib

import numpy as np

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
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    path = pathlib.Path(path)
    if path.suffix.lower() != ".png":
        raise ValueError(f"preview: expected a file name ending in .png; received {str(path)!r}.")
    chosen = _spread_over_classes(np.asarray(labels), count)
    rows = -(-len(chosen) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS * 1.1, rows * 1.25 + 0.6), dpi=100, layout="constrained")
    figure.suptitle(title, fontsize=10)
    axes = np.ravel(figure.subplots(rows, _COLUMNS, squeeze=False))
    for axis in axes:
        axis.set_axis_off()
    for axis, index in zip(axes, chosen, strict=False):
        image = images[index]
        if image.shape[-1] == 1:
            image = image[..., 0]
        axis.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="nearest")
        axis.set_title(_label_text(labels[index], class_names), fontsize=6, pad=2)
    # Written beside and moved, so that a failure leaves no half a picture behind.
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            FigureCanvasAgg(figure).print_png(file)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _spread_over_classes(labels: np.ndarray, count: int) -> np.ndarray:
    """Positions of `count` examples: the first of every class, then the second, and so on."""
    if np.all(labels == labels[0]):
        return np.unique(np.linspace(0, len(labels) - 1, min(count, len(labels))).astype(int))
    by_class = np.argsort(labels, kind="stable")
    starts = np.concatenate([[0], np.flatnonzero(np.diff(labels[by_class])) + 1])
    sizes = np.diff(np.append(starts, len(labels)))
    rank_in_class = np.arange(len(labels)) - np.repeat(starts, sizes)
    return by_class[np.lexsort([labels[by_class], rank_in_class])][:count]


def _label_text(label, class_names):
    if label < 0:
        return "no label"
    return class_names[label] if class_names else str(label)
