"""Training on small images first: most of what is learned early needs no detail."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf


def progressive_resize(
    full_size: tuple[int, int],
    resolutions: Sequence[float],
    milestones: Sequence[float],
    total_steps: int,
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function that gives the batch of a training step the size of its stage.

    Args:
        full_size: (height, width) of the images.
        resolutions: fractions of the full size, one for each stage before the last.
        milestones: where each of these stages ends, as fractions of all steps; increasing.
        total_steps: steps of the whole run.

    Returns:
        A function from uint8 images `[batch, *full_size, channels]` and a step to uint8 images.
    """
    increasing = list(milestones) == sorted(set(milestones))
    inside = all(0 < fraction < 1 for fraction in (*resolutions, *milestones))
    if len(resolutions) != len(milestones) or not increasing or not inside:
        raise ValueError(
            "resolutions, resolution_milestones: expected as many of one as of the other, "
            f"in (0, 1), milestones increasing, received {resolutions!r} and {milestones!r}. "
            "Pass one milestone for each resolution."
        )
    if not resolutions:
        return lambda images, step: images
    sizes = [[max(1, round(f * size)) for size in full_size] for f in (*resolutions, 1.0)]
    ends = [round(milestone * total_steps) for milestone in milestones]

    @tf.autograph.experimental.do_not_convert
    def resize(images, step):
        stage = tf.reduce_sum(tf.cast(step >= tf.constant(ends, tf.int64), tf.int32))
        size = tf.gather(tf.constant(sizes), stage)
        small = tf.cond(stage < len(ends), lambda: _resized(images, size), lambda: images)
        return tf.ensure_shape(small, [images.shape[0], None, None, images.shape[-1]])

    return resize


def _resized(images, size):
    smaller = tf.image.resize(images, size, antialias=True)
    return tf.cast(tf.clip_by_value(tf.round(smaller), 0.0, 255.0), tf.uint8)
