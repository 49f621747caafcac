"""KNN: the distance to the k-th nearest training example."""

import numpy as np
import tensorflow as tf

from s2d_tf.posthoc import checks
from s2d_tf.posthoc.detector import Detector
from s2d_tf.posthoc.step import MAX_EXAMPLES

MIN_NORM = 1e-12
"""Keeps a feature vector of zeros at zero."""


def normalize(features):
    """Feature vectors of length 1."""
    squares = tf.reduce_sum(tf.square(features), axis=-1, keepdims=True)
    return features / tf.maximum(tf.sqrt(squares), MIN_NORM)


def neighbor_distance(features, training, k: int):
    """Distance of each normalized vector to its k-th nearest among normalized training vectors.

    Args:
        features: `[batch, d]`, of length 1.
        training: `[n, d]`, of length 1.
        k: which neighbor, from 1 to n.
    """
    cosines = tf.matmul(features, training, transpose_b=True)
    nearest = tf.math.top_k(cosines, k=k).values[:, -1]
    return tf.sqrt(tf.nn.relu(2.0 - 2.0 * nearest))


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
    ):
        super().__init__(name)
        self.k = checks.positive(k, "k", int)
        self.max_examples = checks.positive(max_examples, "max_examples", int)
        self.seed = seed

    def estimate(self, source) -> dict[str, np.ndarray]:
        features = source.sample_features(self.seed, self.max_examples)
        checks.num_examples(len(features), self.k)
        return {"training": normalize(features).numpy()}

    def scores(self, fitted, state):
        return neighbor_distance(normalize(state.features), fitted["training"], self.k)
