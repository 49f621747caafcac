"""KNN: the distance to the k-th nearest training example."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf._types import TensorLike
from s2d_tf.posthoc import checks
from s2d_tf.posthoc.detector import Detector
from s2d_tf.posthoc.source import MAX_EXAMPLES

if TYPE_CHECKING:
    from s2d_tf.posthoc.predictor import State
    from s2d_tf.posthoc.source import Source

MIN_NORM = 1e-12
"""Keeps a feature vector of zeros at zero."""

GROUP = 50
"""Training vectors whose similarities are compared as one first."""


def normalize(features: TensorLike) -> tf.Tensor:
    """Feature vectors of length 1."""
    squares = tf.reduce_sum(tf.square(features), axis=-1, keepdims=True)
    return features / tf.maximum(tf.sqrt(squares), MIN_NORM)


def _neighbor_distance(features: tf.Tensor, training: tf.Tensor, k: int) -> tf.Tensor:
    """Distance of each normalized vector to its k-th nearest among normalized training vectors.

    Args:
        features: `[batch, d]`, of length 1.
        training: `[d, n]`, of length 1: a product with columns is faster than with rows.
        k: which neighbor, from 1 to n.
    """
    largest = kth_largest(tf.matmul(features, training), k)
    return tf.sqrt(tf.nn.relu(2.0 - 2.0 * largest))


def kth_largest(values: tf.Tensor, k: int) -> tf.Tensor:
    """The k-th largest entry of each row of `[batch, n]`, for entries of at least -1.

    Of many entries, those groups are searched that have the k largest maxima: they hold the k
    largest entries.
    """
    num_groups = -(-values.shape[-1] // GROUP)
    if num_groups < 4 * k:
        return tf.math.top_k(values, k=k).values[:, -1]
    missing = num_groups * GROUP - values.shape[-1]
    if missing:
        values = tf.pad(values, [[0, 0], [0, missing]], constant_values=-2.0)
    groups = tf.reshape(values, [-1, num_groups, GROUP])
    best = tf.math.top_k(tf.reduce_max(groups, axis=-1), k=k).indices
    candidates = tf.reshape(tf.gather(groups, best, axis=1, batch_dims=1), [-1, k * GROUP])
    return tf.math.top_k(candidates, k=k).values[:, -1]


class KNN(Detector):
    """Distance of normalized features to the k-th nearest training example (Sun et al., 2022).

    Args:
        k: which neighbor.
        max_examples: training vectors to keep; of more, a random part.
        seed: of that part.
        name: key of the score.

    Example:

    >>> knn = posthoc.KNN(k=5).fit(model, (images, labels))
    >>> knn.predict_uncertainty(images)["knn"].shape
    (40,)
    """

    output = "knn"
    reads_features = True

    def __init__(
        self,
        k: int = 50,
        max_examples: int = MAX_EXAMPLES,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.k = checks.positive(k, "k", int)
        self.max_examples = checks.positive(max_examples, "max_examples", int)
        self.seed = seed

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        features = source.sample_features(self.seed, self.max_examples)
        checks.num_examples(len(features), self.k)
        return {"training": normalize(features).numpy().T}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return _neighbor_distance(normalize(state.features), fitted["training"], self.k)
