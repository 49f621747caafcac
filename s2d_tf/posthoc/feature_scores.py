"""Detectors that read the features: shaped before the energy, by neighbors, with the linear head.

ReAct, ASH and SCALE are meant for features that are not negative, as those after a ReLU and average
pooling.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf.models.contract import require
from s2d_tf.posthoc.prediction_scores import energy_score, log_sum_exp
from s2d_tf.posthoc.predictor import State
from s2d_tf.posthoc.step import (
    MAX_EXAMPLES,
    Detector,
    FitData,
    check_num_examples,
    choice,
    fraction,
    positive,
    sample,
)

MIN_SUM = 1e-12
"""Keeps the ratio of sums finite where all features are 0."""
MAX_RATIO = 50.0
"""exp(50) times any feature is a float32; only features with negative sums come here."""
MIN_NORM = 1e-12
"""Keeps a feature vector of zeros at zero."""

GROUP = 50
"""Training vectors whose similarities are compared as one first."""
MIN_DISTANCE = 1e-8
"""Features at the training mean have no direction; this keeps their score finite."""


class _ShapingDetector(Detector):
    """Base: the energy of the head's logits for shaped features."""

    reads_features = True
    needs_data = False

    def estimate(self, data: FitData) -> dict[str, Any]:
        return data.head()

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

    title = "ReAct"
    output = "react"
    needs_data = True

    def __init__(self, percentile: float = 0.9, seed: int = 0, name: str | None = None) -> None:
        super().__init__(name)
        self.percentile = fraction(percentile, "percentile")
        self.seed = seed

    def estimate(self, data: FitData) -> dict[str, Any]:
        features = sample(data.features(), self.seed, MAX_EXAMPLES)
        return {**data.head(), "clip": np.percentile(features, 100 * self.percentile)}

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        return tf.minimum(features, fitted["clip"])


class ASH(_ShapingDetector):
    """Only the largest features of each input (Djurisic et al., 2023).

    As `KNN`, it finds inputs that look different rather than near ones.

    Args:
        percentile: fraction of features to remove.
        variant: `"s"` scales the others up, `"p"` leaves them, `"b"` makes them equal.
        name: key of the score.

    Example:

    >>> posthoc.ASH(percentile=0.65, variant="b").fit(model).score(images).shape
    (40,)
    """

    title = "ASH"
    output = "ash"

    def __init__(
        self, percentile: float = 0.9, variant: str = "s", name: str | None = None
    ) -> None:
        super().__init__(name)
        self.percentile = fraction(percentile, "percentile")
        self.variant = choice(variant, "variant", ("s", "p", "b"))

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        kept = _largest(features, self.percentile)
        if self.variant == "b":
            total = tf.reduce_sum(features, axis=-1, keepdims=True)
            return kept * total / tf.reduce_sum(kept, axis=-1, keepdims=True)
        pruned = features * kept
        return pruned * tf.exp(_sum_ratio(features, kept)) if self.variant == "s" else pruned


class SCALE(_ShapingDetector):
    """All features scaled by how much the largest ones stand out (Xu et al., 2024).

    As `KNN`, it finds inputs that look different rather than near ones.

    Args:
        percentile: fraction of features that do not count as the largest.
        name: key of the score.

    Example:

    >>> posthoc.SCALE(percentile=0.85).fit(model).score(images).shape
    (40,)
    """

    title = "SCALE"
    output = "scale"

    def __init__(self, percentile: float = 0.85, name: str | None = None) -> None:
        super().__init__(name)
        self.percentile = fraction(percentile, "percentile")

    def shape(self, fitted: dict[str, tf.Tensor], features: tf.Tensor) -> tf.Tensor:
        return features * tf.exp(_sum_ratio(features, _largest(features, self.percentile)))


class KNN(Detector):
    """Distance of normalized features to the k-th nearest training example (Sun et al., 2022).

    It finds inputs that look different. Near inputs, which look alike and are something else, are
    found better by the entropy of a prediction (docs/detect.md).

    Args:
        k: which neighbor.
        max_examples: training vectors to keep; if there are more, a random subset.
        seed: of that subset.
        name: key of the score.

    Example:

    >>> knn = posthoc.KNN(k=5).fit(model, (images, labels))
    >>> knn.predict_uncertainty(images)["knn"].shape
    (40,)
    """

    title = "KNN"
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
        self.k = positive(k, "k", int)
        self.max_examples = positive(max_examples, "max_examples", int)
        self.seed = seed

    def estimate(self, data: FitData) -> dict[str, Any]:
        features = sample(data.features(), self.seed, self.max_examples)
        check_num_examples(len(features), self.k)
        return {"training": _normalize(features).numpy().T}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        # `training` is [d, n]: a product with columns is faster than with rows.
        similarities = tf.matmul(_normalize(state.features), fitted["training"])
        return tf.sqrt(tf.nn.relu(2.0 - 2.0 * kth_largest(similarities, self.k)))


class FDBD(Detector):
    """Distances to the decision boundaries (Liu & Qin, 2024).

    The score is the negated mean distance to the boundaries between the predicted class and all
    others, relative to the distance to the training mean.

    Example:

    >>> posthoc.FDBD().fit(model, (images, labels)).score(images).shape
    (40,)
    """

    title = "fDBD"
    output = "fdbd"
    reads_features = True

    def estimate(self, data: FitData) -> dict[str, Any]:
        head = data.head()
        total, count = 0.0, 0
        for features in data.features():
            total, count = total + features.sum(axis=0, dtype=np.float64), count + len(features)
        kernel = head["kernel"].T.astype(np.float64)
        norms = np.stack([np.linalg.norm(kernel - row, axis=1) for row in kernel])
        np.fill_diagonal(norms, 1.0)
        require(
            norms.min() > 0,
            "model: expected classes with different kernels, received two equal ones. Train "
            "the model first.",
        )
        return {**head, "mean": total / count, "boundary_norms": norms}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        logits = tf.matmul(state.features, fitted["kernel"]) + fitted["bias"]
        norms = tf.gather(fitted["boundary_norms"], tf.argmax(logits, axis=-1))
        margins = tf.reduce_max(logits, axis=-1, keepdims=True) - logits
        total = tf.reduce_sum(margins / norms, axis=-1)
        from_mean = tf.sqrt(tf.reduce_sum(tf.square(state.features - fitted["mean"]), axis=-1))
        return -total / ((logits.shape[-1] - 1) * tf.maximum(from_mean, MIN_DISTANCE))


class ViM(Detector):
    """Virtual-logit matching (Wang et al., 2022).

    The virtual logit is how far the features are outside of the space that training features use;
    it is scaled to be as large as the largest logits on average. The score is the virtual logit
    less the free energy of the others.

    Args:
        dimension: of the space that training features use; default: half of the features' and at
            most 512, 1000 from 2048 features on, as in the paper.
        seed: of the random part of very many training examples.
        name: key of the score.

    Example:

    >>> posthoc.ViM(dimension=2).fit(model, (images, labels)).score(images).shape
    (40,)
    """

    title = "ViM"
    output = "vim"
    reads_features = True

    def __init__(
        self, dimension: int | None = None, seed: int = 0, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.dimension = dimension and positive(dimension, "dimension", int)
        self.seed = seed

    def estimate(self, data: FitData) -> dict[str, Any]:
        head = data.head()
        kernel, bias = (head[name].astype(np.float64) for name in ("kernel", "bias"))
        features = sample(data.features(), self.seed, MAX_EXAMPLES).astype(np.float64)
        width = features.shape[1]
        dimension = self.dimension or (1000 if width >= 2048 else min(512, width // 2))
        require(
            dimension < width,
            f"dimension: expected less than the {width} features, received {dimension}. "
            "Lower `dimension`.",
        )
        check_num_examples(len(features), dimension + 1)
        origin = -np.linalg.pinv(kernel.T) @ bias
        centered = features - origin
        _, vectors = np.linalg.eigh(centered.T @ centered / len(features))
        residual = vectors[:, : width - dimension]
        norms = np.linalg.norm(centered @ residual, axis=1)
        largest = (features @ kernel + bias).max(axis=1)
        require(
            norms.mean() > 1e-9 * np.abs(centered).mean(),
            f"dimension: expected one that leaves a residual, received {dimension}, which "
            "holds all training features. Lower `dimension`.",
        )
        scale = largest.mean() / norms.mean()
        return {**head, "origin": origin, "residual": residual, "scale": scale}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        energy = log_sum_exp(tf.matmul(state.features, fitted["kernel"]) + fitted["bias"])
        outside = tf.matmul(state.features - fitted["origin"], fitted["residual"])
        virtual_logit = tf.sqrt(tf.reduce_sum(tf.square(outside), axis=-1))
        return fitted["scale"] * virtual_logit - energy


def _largest(features: tf.Tensor, percentile: float) -> tf.Tensor:
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


def _normalize(features: Any) -> tf.Tensor:
    """Feature vectors of length 1."""
    squares = tf.reduce_sum(tf.square(features), axis=-1, keepdims=True)
    return features / tf.maximum(tf.sqrt(squares), MIN_NORM)


def kth_largest(values: tf.Tensor, k: int) -> tf.Tensor:
    """The k-th largest entry of each row of `[batch, n]`, for entries of at least -1.

    Of many entries, those groups are searched that have the k largest maxima: they hold the k
    largest entries.
    """
    num_groups = -(-values.shape[-1] // GROUP)
    if num_groups < 4 * k:
        return tf.math.top_k(values, k=k).values[:, -1]
    missing = num_groups * GROUP - values.shape[-1]
    values = tf.pad(values, [[0, 0], [0, missing]], constant_values=-2.0)
    groups = tf.reshape(values, [-1, num_groups, GROUP])
    best = tf.math.top_k(tf.reduce_max(groups, axis=-1), k=k).indices
    candidates = tf.reshape(tf.gather(groups, best, axis=1, batch_dims=1), [-1, k * GROUP])
    return tf.math.top_k(candidates, k=k).values[:, -1]
