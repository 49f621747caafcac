"""Random mirror and shift of whole batches, with nothing random inside.

The draws are made elsewhere; here an image, a shift and a mirror flag give one picture. All pixels
of a batch are fetched by a single gather, in uint8, from the table of all pixels of the dataset.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from s2d_tf._choices import PADDINGS


class PixelTable:
    """All pixels of a dataset in one table, from which shifted and mirrored batches are gathered.

    Args:
        images: uint8 [N, H, W, C].
        padding: what appears beyond the border: "reflect" (as in Wide ResNet; the border pixel is
            not repeated), or "mean", one color (as in DenseNet, whose authors pad with zeros after
            normalizing: on raw pixels that is the mean of each channel, not black).
        mean: the color for "mean", one value per channel, rounded to whole gray levels.
    """

    def __init__(
        self, images: np.ndarray, padding: str, mean: Sequence[float] | None = None
    ) -> None:
        if padding not in PADDINGS:
            raise ValueError(
                f"padding: expected one of {', '.join(PADDINGS)}, received {padding!r}. Choose "
                "one of these."
            )
        self.padding = padding
        self.num_images, self.height, self.width, self.channels = images.shape
        pixels = np.reshape(images, [-1, self.channels])
        if padding == "mean":
            pixels = np.concatenate([pixels, _padding_pixel(mean, self.channels)])
        self._pixels = host_constant(pixels)
        # 32-bit positions are faster; 64 bits only for the datasets that need them.
        self._index_dtype = tf.int32 if len(pixels) < 2**31 else tf.int64

    def gather(self, index: tf.Tensor, shift: tf.Tensor, mirror: tf.Tensor) -> tf.Tensor:
        """Images `index`, each shifted and then mirrored.

        Args:
            index: [B], which images.
            shift: int [B, 2], rows and columns that the window moves down and right over the image.
            mirror: bool [B], whether the columns are reversed.

        Returns:
            uint8 [B, H, W, C].
        """
        rows = tf.range(self.height)[tf.newaxis, :] + shift[:, :1]
        columns = tf.range(self.width)[tf.newaxis, :]
        columns = tf.where(mirror[:, tf.newaxis], self.width - 1 - columns, columns) + shift[:, 1:]
        if self.padding == "reflect":
            rows, columns = _reflect(rows, self.height), _reflect(columns, self.width)
        dtype = self._index_dtype
        first_pixel = tf.cast(index, dtype) * (self.height * self.width)
        positions = (
            first_pixel[:, tf.newaxis, tf.newaxis]
            + tf.cast(rows * self.width, dtype)[:, :, tf.newaxis]
            + tf.cast(columns, dtype)[:, tf.newaxis, :]
        )
        if self.padding == "mean":
            row_inside = (rows >= 0) & (rows < self.height)
            column_inside = (columns >= 0) & (columns < self.width)
            inside = row_inside[:, :, tf.newaxis] & column_inside[:, tf.newaxis, :]
            padding_pixel = tf.constant(self.num_images * self.height * self.width, dtype)
            positions = tf.where(inside, positions, padding_pixel)
        return tf.gather(self._pixels, positions)


def host_constant(values: np.ndarray) -> tf.Tensor:
    """A tensor in the memory of the host, where tf.data works, also where there is a GPU."""
    with tf.device("CPU:0"):
        return tf.constant(values)


def _reflect(positions: tf.Tensor, size: int) -> tf.Tensor:
    return (size - 1) - tf.abs((size - 1) - tf.abs(positions))


def _padding_pixel(mean, channels):
    if mean is None or np.shape(mean) not in ((), (channels,)):
        raise ValueError(
            f"mean: expected one value for each of {channels} channels with padding 'mean', "
            f"received {mean!r}. Pass the mean of the raw pixels."
        )
    values = np.broadcast_to(np.asarray(mean, dtype=np.float64), [1, channels])
    if not np.all((values >= 0) & (values <= 255)):
        raise ValueError(
            f"mean: expected values in [0, 255], received {mean!r}. Pass the mean of the raw "
            "pixels."
        )
    return np.rint(values).astype(np.uint8)
