"""The noise of a Gaussian student's draws: one for all images, models and batches."""

import statistics

import numpy as np
import tensorflow as tf

SEED = (2022, 0)


def independent(num_draws: int, num_classes: int) -> tf.Tensor:
    """Independent standard normal numbers `[num_draws, 1, num_classes]`."""
    return tf.random.stateless_normal([num_draws, 1, num_classes], SEED)


def balanced(num_draws: int, num_classes: int) -> tf.Tensor:
    """Normal noise `[num_draws, 1, num_classes]`, the same for every class but for its order.

    Independent numbers that all images share shift each class by their mean and widen it by their
    variance, on every image alike: some classes are favored. Here every class has the same
    quantiles of the normal distribution, scaled to variance 1, in a random order of its own, and
    each draw has its opposite (antithetic pairs; an odd number of draws has the mean as well).
    """
    if num_draws == 1:
        return tf.zeros([1, 1, num_classes])
    normal = statistics.NormalDist()
    quantiles = np.array([normal.inv_cdf((i + 0.5) / num_draws) for i in range(num_draws)])
    half = num_draws // 2
    sizes = tf.constant(quantiles[-half:] / quantiles.std(), tf.float32)
    keys = tf.random.stateless_uniform([2, half, num_classes], SEED)
    sizes = tf.gather(sizes, tf.argsort(keys[0], axis=0))
    pairs = tf.where(keys[1] < 0.5, -sizes, sizes)
    middle = tf.zeros([num_draws % 2, num_classes])
    return tf.concat([pairs, middle, -pairs], axis=0)[:, None]


DRAWS = {"independent": independent, "balanced": balanced}
