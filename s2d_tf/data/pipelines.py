"""The input pipeline of training: shuffled batches of randomly shifted and mirrored images.

All that is random is a pure function of (seed, epoch, index), drawn by a fixed algorithm: the same
on every device and in every process.
"""

import functools
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from s2d_tf._types import AUGMENTATIONS, PADDINGS
from s2d_tf.data import image_files
from s2d_tf.errors import UserError

# Each kind of draw has a stream of its own, so that adding one never changes another.
_ORDER, _SHIFT, _MIRROR, _PAIRING, _FIRST_MIRROR = range(5)


def steps_per_epoch(num_examples: int, batch_size: int) -> int:
    """Full batches in one pass over the data.

    Example:

    >>> data.steps_per_epoch(num_examples=50_000, batch_size=64)
    781
    """
    return num_examples // batch_size


def train_pipeline(
    images: np.ndarray,
    labels: np.ndarray,
    *,
    batch_size: int,
    seed: int,
    epochs: int = 1,
    start_step: int = 0,
    augmentation: str | None = None,
    padding: str | None = None,
    mean: Sequence[float] | None = None,
    max_shift: int = 4,
    resolutions: Sequence[float] = (),
    resolution_milestones: Sequence[float] = (),
    with_index: bool = False,
    num_heads: int = 1,
) -> tf.data.Dataset:
    """Shuffled training batches of all epochs in one dataset, without an epoch's last, partial one.

    The order of an epoch is a permutation drawn from (seed, epoch); the shift and the mirroring of
    an image are drawn from (seed, epoch, index of the image). Nothing depends on the batch size, on
    the number of replicas or on what was read before. So `start_step` continues a run at any step
    of any epoch, at no cost, with exactly the batches that an uninterrupted run would have seen.

    One iterator runs through all epochs: `model.fit(dataset, epochs=epochs, shuffle=False,
    steps_per_epoch=steps_per_epoch(len(images), batch_size))`.

    Args:
        images: uint8 [N, H, W, C].
        labels: integers [N].
        batch_size: images in a global batch, over all replicas.
        seed: any integer.
        epochs: how many passes over the data the dataset holds.
        start_step: batches to leave out at the beginning, counted over all epochs.
        augmentation: None; "mirror_shift": mirrored half of the time, and shifted by up to
            `max_shift` pixels in each direction; or "alternating_mirror_shift": the same, but
            mirrored in every second epoch, each image beginning with either view.
        padding: what a shift uncovers: "reflect" (as in Wide ResNet; the border pixel is not
            repeated), or "mean", one color (as in DenseNet, whose authors pad with zeros after
            normalizing: on raw pixels that is the mean of each channel, not black).
        mean: the color for "mean", one value per channel, rounded to whole gray levels.
        max_shift: largest shift in pixels.
        resolutions: image sizes of the first stages of training, as fractions of the full size;
            after them images have their full size.
        resolution_milestones: where each of these stages ends, as fractions of all steps.
        with_index: also deliver each image's position in `images`.
        num_heads: more than 1 makes MIMO inputs: head 0 sees the batch in order, each other head
            the same batch in an order drawn from (seed, epoch, step). No image is repeated.

    Returns:
        A dataset of `steps_per_epoch * epochs - start_step` elements (images, labels), or with
        `with_index` (images, {"labels": labels, "index": index}). Images are uint8 [B, H, W, C],
        labels and index int64 [B]; with heads [B, heads, H, W, C] and [B, heads]. With
        `resolutions` the sizes H and W differ between batches.

    Example:

    >>> dataset = data.train_pipeline(images, labels, batch_size=8, seed=0, epochs=2)
    >>> int(dataset.cardinality())
    10
    """
    images, labels = np.asarray(images), np.asarray(labels)
    num_examples = len(images)
    steps = steps_per_epoch(num_examples, max(batch_size, 1))
    total_steps, side = steps * epochs, min(images.shape[1:3], default=0)
    milestones = list(resolution_milestones)
    are_fractions = all(0 < fraction < 1 for fraction in (*resolutions, *milestones))
    are_stages = len(resolutions) == len(milestones) and milestones == sorted(set(milestones))
    for name, is_right, expected, received in (
        ("images", images.dtype == np.uint8 and images.ndim == 4, "raw pixels, uint8 [N, H, W, C]",
         f"{images.dtype} {list(images.shape)}"),
        ("labels", labels.shape == (num_examples,) and np.issubdtype(labels.dtype, np.integer),
         f"integers [{num_examples}]", f"{labels.dtype} {list(labels.shape)}"),
        ("batch_size", 1 <= batch_size <= num_examples, f"1 to {num_examples}, all images",
         batch_size),
        ("epochs", epochs > 0, "at least 1", epochs),
        ("num_heads", num_heads > 0, "at least 1", num_heads),
        ("start_step", 0 <= start_step <= total_steps, f"0 to {total_steps}", start_step),
        ("augmentation", augmentation is None or augmentation in AUGMENTATIONS,
         f"None or {', '.join(AUGMENTATIONS)}", repr(augmentation)),
        ("max_shift", augmentation is None or 0 <= max_shift < side, f"0 to {side - 1}", max_shift),
        ("padding", augmentation is None or padding in PADDINGS, f"one of {', '.join(PADDINGS)}",
         repr(padding)),
        ("resolutions, resolution_milestones", are_fractions and are_stages,
         "as many of one as of the other, in (0, 1), milestones increasing",
         f"{resolutions!r} and {milestones!r}"),
    ):  # fmt: skip
        UserError.unless(
            is_right,
            f"{name}: expected {expected}, received {received}. Correct the value.",
        )
    if augmentation:
        fetch: Callable[..., tf.Tensor] = shifted_views(images, padding, mean)
    else:
        fetch = functools.partial(tf.gather, _host_constant(images))
    alternating = augmentation == "alternating_mirror_shift"
    resize = _progressive_resize(images.shape[1:3], resolutions, milestones, total_steps)
    label_table = _host_constant(labels.astype(np.int64))

    @tf.autograph.experimental.do_not_convert
    def epoch_batches(epoch):
        """Which images, in which views: a few bytes an image, drawn once for the epoch."""
        order = _shuffled(tf.range(num_examples, dtype=tf.int64), _fold(seed, _ORDER, epoch))
        indices = tf.reshape(order[: steps * batch_size], [steps, batch_size])
        drawn = _views(seed, num_examples, epoch, max_shift, alternating) if augmentation else ()
        resumed = epoch == start_step // steps
        first_step = tf.where(resumed, tf.constant(start_step % steps, tf.int64), 0)

        @tf.autograph.experimental.do_not_convert
        def batch_of(step):
            view = tuple(tf.gather(part, indices[step]) for part in drawn)
            heads = _pairing(seed, epoch, step, batch_size, num_heads) if num_heads > 1 else ()
            return epoch * steps + step, indices[step], view, heads

        return tf.data.Dataset.range(first_step, steps).map(batch_of)

    @tf.autograph.experimental.do_not_convert
    def make_batch(step, index, view, heads):
        batch_images = resize(fetch(index, *view), step)
        if num_heads > 1:
            batch_images, index = tf.gather(batch_images, heads), tf.gather(index, heads)
        batch_labels = tf.gather(label_table, index)
        targets = {"labels": batch_labels, "index": index} if with_index else batch_labels
        return batch_images, targets

    dataset = tf.data.Dataset.range(start_step // steps, epochs).flat_map(epoch_batches)
    dataset = dataset.map(make_batch, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
    dataset = dataset.apply(tf.data.experimental.assert_cardinality(total_steps - start_step))
    return with_standard_options(dataset.prefetch(tf.data.AUTOTUNE))


def with_standard_options(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Fixed order, and sharding over workers by elements, which loses and repeats none."""
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.with_options(options)


def _views(seed, count, epoch, max_shift, alternating):
    """Shift, int32 [count, 2], and mirror flag, bool [count], of each image in an epoch.

    The generator counts, so the draws of an image do not depend on how many follow it.
    """
    shift = _integers([count, 2], _fold(seed, _SHIFT, epoch), -max_shift, max_shift + 1)
    if alternating:
        first = _integers([count], _fold(seed, _FIRST_MIRROR), 0, 2)
        return shift, (first + tf.cast(epoch, tf.int32)) % 2 == 1
    return shift, _integers([count], _fold(seed, _MIRROR, epoch), 0, 2) == 1


def _pairing(seed, epoch, step, size, num_heads):
    """int32 [size, heads], which image of a batch each head sees; head 0 sees them in order."""
    first = tf.range(size)
    seeds = (_fold(seed, _PAIRING, epoch, step, head) for head in range(1, num_heads))
    return tf.stack([first, *(_shuffled(first, each) for each in seeds)], axis=-1)


def _fold(seed, stream, *values):
    folded = tf.constant([seed, stream], tf.int64)
    for value in values:
        folded = tf.random.experimental.stateless_fold_in(
            folded, tf.cast(value, tf.int64), alg="philox"
        )
    return folded


def _shuffled(values, seed):
    return tf.random.experimental.stateless_shuffle(values, seed=seed, alg="philox")


def _integers(shape, seed, low, high):
    return tf.random.stateless_uniform(shape, seed, low, high, dtype=tf.int32, alg="philox")


def _host_constant(values):
    """A tensor in the memory of the host, where tf.data works, also where there is a GPU."""
    with tf.device("CPU:0"):
        return tf.constant(values)


def shifted_views(
    images: np.ndarray, padding: str | None, mean: Sequence[float] | None = None
) -> Callable[[tf.Tensor, tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function that gathers shifted and mirrored batches, in uint8.

    Args:
        images: uint8 [N, H, W, C].
        padding, mean: see `train_pipeline`.

    Returns:
        A function of the index [B] of each image; its shift, int [B, 2], the rows and columns that
        the window moves down and right over the image; and whether it is mirrored then, bool [B].
    """
    _, height, width, channels = images.shape
    # One table of all pixels of the dataset: a batch is a single gather.
    table = np.reshape(images, [-1, channels])
    if padding == "mean":
        values = np.asarray([] if mean is None else mean, dtype=np.float64)
        UserError.unless(
            values.shape in ((), (channels,)) and np.all((values >= 0) & (values <= 255)),
            f"mean: expected a value in [0, 255] for each of {channels} channels with padding "
            f"'mean', received {mean!r}. Pass the mean of the raw pixels.",
        )
        padding_pixel = np.rint(np.broadcast_to(values, [1, channels])).astype(np.uint8)
        table = np.concatenate([table, padding_pixel])
    pixels = _host_constant(table)
    # 32-bit positions are faster; 64 bits only for the datasets that need them.
    dtype = tf.int32 if len(table) < 2**31 else tf.int64

    def reflect(positions, size):
        return (size - 1) - tf.abs((size - 1) - tf.abs(positions))

    def gather(index, shift, mirror):
        rows = tf.range(height)[tf.newaxis, :] + shift[:, :1]
        columns = tf.range(width)[tf.newaxis, :]
        columns = tf.where(mirror[:, tf.newaxis], width - 1 - columns, columns) + shift[:, 1:]
        if padding == "reflect":
            rows, columns = reflect(rows, height), reflect(columns, width)
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
            positions = tf.where(inside, positions, tf.constant(len(table) - 1, dtype))
        return tf.gather(pixels, positions)

    return gather


def _progressive_resize(full_size, resolutions, milestones, total_steps):
    """A function that gives the uint8 images of a training step the size of its stage.

    Training begins with small images: most of what is learned early needs no detail.
    """
    if not resolutions:
        return lambda images, step: images
    sizes = [[max(1, round(f * size)) for size in full_size] for f in (*resolutions, 1.0)]
    ends = [round(milestone * total_steps) for milestone in milestones]

    @tf.autograph.experimental.do_not_convert
    def resize(images, step):
        stage = tf.reduce_sum(tf.cast(step >= tf.constant(ends, tf.int64), tf.int32))
        sized = tf.cond(
            stage < len(ends),
            lambda: image_files.resize(images, tf.gather(sizes, stage)),
            lambda: images,
        )
        return tf.ensure_shape(sized, [images.shape[0], None, None, images.shape[-1]])

    return resize
