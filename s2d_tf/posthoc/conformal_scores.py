"""Conformal scores of all classes, and the threshold that gives a coverage.

A score is any fixed function of an input and a class, larger = less fitting. If new examples come
from the same source as the calibration examples, the set of all classes whose score is at most the
k-th smallest of the n scores of the calibration labels, k = ceil((n + 1) coverage), contains the
label with at least the stated chance.
"""

from __future__ import annotations

import math

import numpy as np
import tensorflow as tf

METHODS = ("lac", "aps", "raps")

HASH_SCALE = 10.0
"""Makes a weighted sum of logits differ by much more than 1 between inputs, so that what is after
its decimal point looks random, and by much less than 1 between runtimes that round differently."""


def lac_scores(probs: tf.Tensor) -> tf.Tensor:
    """One minus the probability (Sadinle et al., 2019), `[batch, classes]`."""
    return 1.0 - probs


def cumulative_scores(
    probs: tf.Tensor, draws: tf.Tensor | None = None, penalty: float = 0.0, free_classes: int = 0
) -> tf.Tensor:
    """APS (Romano et al., 2020) and, with a penalty, RAPS (Angelopoulos et al., 2021).

    The sum of the probabilities from the largest down to the class, plus `penalty` for each rank
    beyond `free_classes`.

    Args:
        probs: `[batch, classes]`.
        draws: numbers in [0, 1), `[batch]`: that share of the class's own probability does not
            count, which makes sets smaller. `None` counts all of it.
        penalty, free_classes: of RAPS.

    Returns:
        `[batch, classes]`.
    """
    num_classes = probs.shape[-1]
    sorted_probs, order = tf.math.top_k(probs, k=num_classes)
    scores = tf.cumsum(sorted_probs, axis=-1)
    if draws is not None:
        scores -= draws[:, None] * sorted_probs
    beyond = np.maximum(np.arange(1, num_classes + 1) - free_classes, 0)
    scores += tf.constant(penalty * beyond, scores.dtype)
    # The place of each class in the order, by sorting the order itself.
    places = tf.math.top_k(-tf.cast(order, tf.float32), k=num_classes).indices
    return tf.gather(scores, places, axis=1, batch_dims=1)


def hashed_draws(member_logits: tf.Tensor) -> tf.Tensor:
    """A number in [0, 1) for each input that depends on its prediction alone.

    It replaces a random draw: the same input always gets the same set, and the guarantee holds
    because the score remains a fixed function of the input.
    """
    mean = tf.reduce_mean(member_logits, axis=0)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, mean.shape[-1]).astype(np.float32)
    value = tf.abs(tf.reduce_sum(mean * weights, axis=-1)) * HASH_SCALE
    value = tf.minimum(value, 2.0**30)
    return value - tf.cast(tf.cast(value, tf.int32), tf.float32)


def threshold(scores: np.ndarray, coverage: float, where: str = "") -> float:
    """The `ceil((n + 1) coverage)`-th smallest of the n scores of the calibration labels.

    Args:
        scores: `[n]`.
        coverage: the chance that a set contains the label.
        where: names the examples in the error that too few of them raise.
    """
    needed = _min_examples(coverage)
    if len(scores) < needed:
        raise ValueError(
            f"data: expected at least {needed} calibration examples{where} for a coverage of "
            f"{coverage:g}, received {len(scores)}. Add examples or lower `coverage`."
        )
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return float(np.partition(scores, rank - 1)[rank - 1])


def _min_examples(coverage: float) -> int:
    """The fewest calibration examples that can give a coverage."""
    return math.ceil(coverage / (1.0 - coverage) - 1e-9)
