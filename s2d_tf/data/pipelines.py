"""The input pipeline of training: a pure function of (seed, epoch, index)."""

from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from s2d_tf._choices import AUGMENTATIONS
from s2d_tf.data.augmentation import (
    host_constant,
    order,
    pairing,
    progressive_resize,
    shifted_views,
    views,
)
from s2d_tf.errors import UserError


def steps_per_epoch(num_examples: int, batch_size: int) -> int:
    """Full batches in one pass over the data.

    Example:

    >>> data.steps_per_epoch(num_examples=50_000, batch_size=64)
    781
    """
    if batch_size < 1:
        raise UserError(
            f"batch_size: expected at least 1, received {batch_size}. Pass the number of "
            "images in a batch."
        )
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
        padding: what a shift uncovers: "mean" or "reflect"; see `augmentation.shifted_views`.
        mean: the mean of each channel on raw pixels, for padding "mean".
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
    steps = steps_per_epoch(num_examples, batch_size)
    total_steps, side = steps * epochs, min(images.shape[1:3], default=0)
    for name, is_right, expected, received in (
        ("images", images.dtype == np.uint8 and images.ndim == 4, "raw pixels, uint8 [N, H, W, C]",
         f"{images.dtype} {list(images.shape)}"),
        ("labels", labels.shape == (num_examples,) and np.issubdtype(labels.dtype, np.integer),
         f"integers [{num_examples}]", f"{labels.dtype} {list(labels.shape)}"),
        ("batch_size", steps > 0, f"at most the {num_examples} images", batch_size),
        ("epochs", epochs > 0, "at least 1", epochs),
        ("num_heads", num_heads > 0, "at least 1", num_heads),
        ("start_step", 0 <= start_step <= total_steps, f"0 to {total_steps}", start_step),
        ("augmentation", augmentation is None or augmentation in AUGMENTATIONS,
         f"None or {', '.join(AUGMENTATIONS)}", repr(augmentation)),
        ("max_shift", augmentation is None or 0 <= max_shift < side, f"0 to {side - 1}", max_shift),
    ):  # fmt: skip
        if not is_right:
            raise UserError(f"{name}: expected {expected}, received {received}.")
    if augmentation:
        fetch: Callable[..., tf.Tensor] = shifted_views(images, padding, mean)
    else:
        image_table = host_constant(images)
        fetch = lambda index: tf.gather(image_table, index)  # noqa: E731
    alternating = augmentation == "alternating_mirror_shift"
    resize = progressive_resize(images.shape[1:3], resolutions, resolution_milestones, total_steps)
    label_table = host_constant(labels.astype(np.int64))

    @tf.autograph.experimental.do_not_convert
    def epoch_batches(epoch):
        """Which images, in which views: a few bytes an image, drawn once for the epoch."""
        indices = order(seed, num_examples, epoch)
        drawn = views(seed, num_examples, epoch, max_shift, alternating) if augmentation else ()
        resumed = epoch == start_step // steps
        first_step = tf.where(resumed, tf.constant(start_step % steps, tf.int64), 0)

        @tf.autograph.experimental.do_not_convert
        def batch_of(step):
            start = step * batch_size
            index = tf.ensure_shape(indices[start : start + batch_size], [batch_size])
            view = tuple(tf.gather(part, index) for part in drawn)
            heads = pairing(seed, epoch, step, batch_size, num_heads) if num_heads > 1 else ()
            return epoch * steps + step, index, view, heads

        return tf.data.Dataset.range(first_step, steps).map(batch_of)

    @tf.autograph.experimental.do_not_convert
    def make_batch(step, index, view, heads):
        batch_images = resize(fetch(index, *view), step)
        if num_heads > 1:
            heads = tf.ensure_shape(heads, [batch_size, num_heads])
            batch_images, index = tf.gather(batch_images, heads), tf.gather(index, heads)
        batch_labels = tf.gather(label_table, index)
        if with_index:
            return batch_images, {"labels": batch_labels, "index": index}
        return batch_images, batch_labels

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
