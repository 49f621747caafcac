"""Detectors that shape the features before the energy is computed: ReAct, ASH and SCALE.

They are meant for features that are not negative, as those after a ReLU and average pooling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf.posthoc import checks
from s2d_tf.posthoc.detector import Detector
from s2d_tf.posthoc.prediction_scores import energy_score

if TYPE_CHECKING:
    from s2d_tf.posthoc.predictor import State
    from s2d_tf.posthoc.source import Source

VARIANTS = ("s", "p", "b")
MIN_SUM = 1e-12
"""Keeps the ratio of sums finite where all features are 0."""
MAX_RATIO = 50.0
"""exp(50) times any feature is a float32; only features with negative sums come here."""


def largest(features: tf.Tensor, percentile: float) -> tf.Tensor:
    """Which features are kept, `[batch, d]`, as 0 and 1, when a fraction of the lowest goes."""
    width = features.shape[-1]
    kept = max(width - round(width * percentile), 1)
    threshold = tf.math.top_k(features, k=kept).values[:, -1:]
    return tf.cast(features >= threshold, features.dtype)


def _sum_ratio(features: tf.Tensor, kept: tf.Tensor) -> tf.Tensor:
    """The sum of all features over that of the kept ones, `[batch, 1]`."""
    total = tf.reduce_sum(features, axis=-1, keepdims=True)
    of_kept = tf.reduce_sum(features * kept, axis=-1, keepdims=True)
    return tf.minimum(total / tf.maximum(of_kept, MIN_SUM), MAX_RATIO)


def _prune(features: tf.Tensor, percentile: float, variant: str) -> tf.Tensor:
    """ASH: the largest features, scaled up ("s"), as they are ("p"), or all equal ("b")."""
    kept = largest(features, percentile)
    if variant == "b":
        total = tf.reduce_sum(features, axis=-1, keepdims=True)
        return kept * total / tf.reduce_sum(kept, axis=-1, keepdims=True)
    pruned = features * kept
    return pruned * tf.exp(_sum_ratio(features, kept)) if variant == "s" else pruned


def scale(features: tf.Tensor, percentile: float) -> tf.Tensor:
    """SCALE: all features times the exponential of the ratio of sums."""
    return features * tf.exp(_sum_ratio(features, largest(features, percentile)))


class _ShapingDetector(Detector):
    """Base: the energy of the head's logits for shaped features."""

    reads_features = True
    needs_data = False

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        return source.head()

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        raise NotImplementedError

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        shaped = self.shape(fitted, state.features)
        return energy_score((tf.matmul(shaped, fitted["kernel"]) + fitted["bias"])[None])


class ReAct(_ShapingDetector):
    """Features clipped at a percentile of the training features (Sun et al., 2021).

    Args:
        percentile: fraction of training features below the clip.
        seed: of the random part of very many training examples.
        name: key of the score.

    Example:

    >>> posthoc.ReAct(percentile=0.9).fit(model, (images, labels)).score(images).shape
    (40,)
    """

    output = "react"
    needs_data = True

    def __init__(self, percentile: float = 0.9, seed: int = 0, name: str | None = None) -> None:
        super().__init__(name)
        self.percentile = checks.fraction(percentile, "percentile")
        self.seed = seed

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        features = source.sample_features(self.seed)
        return {**source.head(), "clip": np.percentile(features, 100 * self.percentile)}

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        return tf.minimum(features, fitted["clip"])


class ASH(_ShapingDetector):
    """Only the largest features of each input (Djurisic et al., 2023).

    Args:
        percentile: fraction of features to remove.
        variant: `"s"` scales the others up, `"p"` leaves them, `"b"` makes them equal.
        name: key of the score.

    Example:

    >>> posthoc.ASH(percentile=0.65, variant="b").fit(model).score(images).shape
    (40,)
    """

    output = "ash"

    def __init__(
        self, percentile: float = 0.9, variant: str = "s", name: str | None = None
    ) -> None:
        super().__init__(name)
        self.percentile = checks.fraction(percentile, "percentile")
        self.variant = checks.choice(variant, "variant", VARIANTS)

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        return _prune(features, self.percentile, self.variant)


class SCALE(_ShapingDetector):
    """All features scaled by how much the largest ones stand out (Xu et al., 2024).

    Args:
        percentile: fraction of features that do not count as the largest.
        name: key of the score.

    Example:

    >>> posthoc.SCALE(percentile=0.85).fit(model).score(images).shape
    (40,)
    """

    output = "scale"

    def __init__(self, percentile: float = 0.85, name: str | None = None) -> None:
        super().__init__(name)
        self.percentile = checks.fraction(percentile, "percentile")

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        return scale(features, self.percentile)
