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

    Example:

    >>> data.write_preview("sheet.png", images, labels, title="training images", count=10)
    """
    # Not pyplot: it would choose a window system and keep the figure.
    from matplotlib.figure import Figure

    path = pathlib.Path(path)
    if path.suffix.lower() != ".png":
        raise ValueError(
            f"preview: expected a file name that ends in .png, received {str(path)!r}. Rename it."
        )
    if not path.parent.is_dir():
        raise ValueError(
            f"preview: expected a file in a folder that exists, received {str(path)!r}. Make the "
            "folder first."
        )
    # By label and evenly spaced: about as many of each class, from all over the split.
    places = np.linspace(0, len(labels) - 1, min(count, len(labels))).astype(int)
    chosen = np.argsort(labels, kind="stable")[places]
    rows = -(-len(chosen) // _COLUMNS)
    figure = Figure(figsize=(_COLUMNS, 1.15 * rows + 0.4), dpi=100, layout="constrained")
    figure.suptitle(title, fontsize=10)
    for place, index in enumerate(chosen, start=1):
        axis = figure.add_subplot(rows, _COLUMNS, place)
        axis.set_axis_off()
        image = np.broadcast_to(images[index], [*images.shape[1:3], 3])
        axis.imshow(image, interpolation="nearest")
        name = class_names[labels[index]] if class_names else str(labels[index])
        axis.set_title("no label" if labels[index] < 0 else name, fontsize=6, pad=2)
    with files.written_beside(path) as temporary:
        figure.savefig(temporary, format="png")
