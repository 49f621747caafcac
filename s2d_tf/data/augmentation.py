"""What training input looks like: random views of images, gathered batch by batch.

All that is random is a pure function of (seed, epoch, index), drawn by a fixed algorithm: the same
on every device and in every process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from s2d_tf._choices import PADDINGS
from s2d_tf.errors import UserError

# Each kind of draw has a stream of its own, so that adding one never changes another.
_ORDER, _SHIFT, _MIRROR, _PAIRING, _FIRST_MIRROR = range(5)


def order(seed: int, count: int, epoch: tf.Tensor) -> tf.Tensor:
    """int64 [count], the order in which an epoch visits the images."""
    return _shuffled(tf.range(count, dtype=tf.int64), _fold(seed, _ORDER, epoch))


def views(
    seed: int, count: int, epoch: tf.Tensor, max_shift: int, alternating: bool = False
) -> tuple[tf.Tensor, tf.Tensor]:
    """Shift, int32 [count, 2], and mirror flag, bool [count], of each image in an epoch.

    The generator counts, so the draws of an image do not depend on how many follow it.

    Args:
        seed: any integer.
        count: images in the dataset.
        epoch: number of the epoch.
        max_shift: largest shift in pixels.
        alternating: mirror each image in every second epoch instead of at random.
    """
    shift = _integers([count, 2], _fold(seed, _SHIFT, epoch), -max_shift, max_shift + 1)
    if alternating:
        first = _integers([count], _fold(seed, _FIRST_MIRROR), 0, 2)
        return shift, (first + tf.cast(epoch, tf.int32)) % 2 == 1
    return shift, _integers([count], _fold(seed, _MIRROR, epoch), 0, 2) == 1


def pairing(seed: int, epoch: tf.Tensor, step: tf.Tensor, size: int, num_heads: int) -> tf.Tensor:
    """int32 [size, heads], which image of a batch each head sees; head 0 sees them in order."""
    positions = [tf.range(size)]
    for head in range(1, num_heads):
        positions.append(_shuffled(positions[0], _fold(seed, _PAIRING, epoch, step, head)))
    return tf.stack(positions, axis=-1)


def _fold(seed, stream, *values):
    folded = tf.constant([seed, stream], tf.int64)
    for value in values:
        value = tf.cast(value, tf.int64)
        folded = tf.random.experimental.stateless_fold_in(folded, value, alg="philox")
    return folded


def _shuffled(values, seed):
    return tf.random.experimental.stateless_shuffle(values, seed=seed, alg="philox")


def _integers(shape, seed, low, high):
    return tf.random.stateless_uniform(shape, seed, low, high, dtype=tf.int32, alg="philox")


def shifted_views(
    images: np.ndarray, padding: str | None, mean: Sequence[float] | None = None
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function that gathers shifted and mirrored batches, in uint8.

    Args:
        images: uint8 [N, H, W, C].
        padding: what appears beyond the border: "reflect" (as in Wide ResNet; the border pixel is
            not repeated), or "mean", one color (as in DenseNet, whose authors pad with zeros after
            normalizing: on raw pixels that is the mean of each channel, not black).
        mean: the color for "mean", one value per channel, rounded to whole gray levels.

    Returns:
        A function of the index [B] of each image; its shift, int [B, 2], the rows and columns that
        the window moves down and right over the image; and whether it is mirrored then, bool [B].
    """
    if padding not in PADDINGS:
        raise UserError(f"padding: expected one of {', '.join(PADDINGS)}, received {padding!r}.")
    count, height, width, channels = images.shape
    # One table of all pixels of the dataset: a batch is a single gather.
    table = np.reshape(images, [-1, channels])
    if padding == "mean":
        table = np.concatenate([table, _padding_pixel(mean, channels)])
    pixels = host_constant(table)
    # 32-bit positions are faster; 64 bits only for the datasets that need them.
    dtype = tf.int32 if len(table) < 2**31 else tf.int64

    def gather(index, shift, mirror):
        rows = tf.range(height)[tf.newaxis, :] + shift[:, :1]
        columns = tf.range(width)[tf.newaxis, :]
        columns = tf.where(mirror[:, tf.newaxis], width - 1 - columns, columns) + shift[:, 1:]
        if padding == "reflect":
            rows, columns = _reflect(rows, height), _reflect(columns, width)
        first_pixel = tf.cast(index, dtype) * (height * width)
        positions = (
            first_pixel[:, tf.newaxis, tf.newaxis]
            + tf.cast(rows * width, dtype)[:, :, tf.newaxis]
            + tf.cast(columns, dtype)[:, tf.newaxis, :]
        )
        if padding == "mean":
            row_inside = (rows >= 0) & (rows < height)
            column_inside = (columns >= 0) & (columns < width)
            inside = row_inside[:, :, tf.newaxis] & column_inside[:, tf.newaxis, :]
            padding_pixel = tf.constant(count * height * width, dtype)
            positions = tf.where(inside, positions, padding_pixel)
        return tf.gather(pixels, positions)

    return gather


def host_constant(values: np.ndarray) -> tf.Tensor:
    """A tensor in the memory of the host, where tf.data works, also where there is a GPU."""
    with tf.device("CPU:0"):
        return tf.constant(values)


def _reflect(positions, size):
    return (size - 1) - tf.abs((size - 1) - tf.abs(positions))


def _padding_pixel(mean, channels):
    values = np.asarray([] if mean is None else mean, dtype=np.float64)
    if values.shape not in ((), (channels,)) or not np.all((values >= 0) & (values <= 255)):
        raise UserError(
            f"mean: expected a value in [0, 255] for each of {channels} channels with padding "
            f"'mean', received {mean!r}. Pass the mean of the raw pixels."
        )
    return np.rint(np.broadcast_to(values, [1, channels])).astype(np.uint8)


def progressive_resize(
    full_size: tuple[int, int],
    resolutions: Sequence[float],
    milestones: Sequence[float],
    total_steps: int,
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function that gives the batch of a training step the size of its stage.

    Training begins with small images: most of what is learned early needs no detail.

    Args:
        full_size: (height, width) of the images.
        resolutions: fractions of the full size, one for each stage before the last.
        milestones: where each of these stages ends, as fractions of all steps; increasing.
        total_steps: steps of the whole run.

    Returns:
        A function from uint8 images `[batch, *full_size, channels]` and a step to uint8 images.
    """
    increasing = list(milestones) == sorted(set(milestones))
    fractions = all(0 < fraction < 1 for fraction in (*resolutions, *milestones))
    if len(resolutions) != len(milestones) or not increasing or not fractions:
        raise UserError(
            "resolutions, resolution_milestones: expected as many of one as of the other, "
            f"in (0, 1), milestones increasing, received {resolutions!r} and {milestones!r}. "
            "Pass one milestone for each resolution."
        )
    if not resolutions:
        return lambda images, step: images
    sizes = [[max(1, round(f * size)) for size in full_size] for f in (*resolutions, 1.0)]
    ends = [round(milestone * total_steps) for milestone in milestones]

    def smaller(images, size):
        resized = tf.image.resize(images, size, antialias=True)
        return tf.cast(tf.clip_by_value(tf.round(resized), 0.0, 255.0), tf.uint8)

    @tf.autograph.experimental.do_not_convert
    def resize(images, step):
        stage = tf.reduce_sum(tf.cast(step >= tf.constant(ends, tf.int64), tf.int32))
        size = tf.gather(tf.constant(sizes), stage)
        sized = tf.cond(stage < len(ends), lambda: smaller(images, size), lambda: images)
        return tf.ensure_shape(sized, [images.shape[0], None, None, images.shape[-1]])

    return resize
