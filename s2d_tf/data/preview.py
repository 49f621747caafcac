"""A contact sheet: some pictures of a dataset with their labels, as a PNG file."""

import os
import pathlib

import numpy as np

_COLUMNS = 10
# In pixels: side of a picture's place, space between pictures, height of a line of text.
_CELL, _GAP, _TEXT = 100, 4, 16


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
    width, height = _COLUMNS * _CELL, rows * (_CELL + _TEXT) + 2 * _TEXT
    sheet = np.full([height, width, 3], 255, np.uint8)
    figure = Figure(figsize=(width / 100, height / 100), dpi=100)
    figure.text(0.5, 1 - _TEXT / height, title, ha="center", va="center", fontsize=10)
    for place, index in enumerate(chosen):
        top = 2 * _TEXT + (place // _COLUMNS) * (_CELL + _TEXT)
        left = (place % _COLUMNS) * _CELL
        picture = _enlarged(images[index])
        sheet[top + _TEXT :, left:][: picture.shape[0], : picture.shape[1]] = picture
        x, y = (left + picture.shape[1] / 2) / width, 1 - (top + _TEXT / 2) / height
        text = _label_text(labels[index], class_names)
        figure.text(x, y, text, ha="center", va="center", fontsize=6)
    figure.figimage(sheet)
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


def _enlarged(image: np.ndarray) -> np.ndarray:
    """An RGB copy whose pixels are squares, as large as a cell of the sheet allows."""
    factor = max(1, (_CELL - _GAP) // max(image.shape[:2]))
    large = image[: _CELL - _GAP, : _CELL - _GAP].repeat(factor, axis=0).repeat(factor, axis=1)
    return np.broadcast_to(large, [*large.shape[:2], 3])


def _label_text(label, class_names):
    if label < 0:
        return "no label"
    return class_names[label] if class_names else str(label)
