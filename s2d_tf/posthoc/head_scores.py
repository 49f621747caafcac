"""Detectors that read the features together with the linear head: ViM and fDBD."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from s2d_tf.posthoc import checks
from s2d_tf.posthoc.detector import Detector
from s2d_tf.posthoc.prediction_scores import log_sum_exp

if TYPE_CHECKING:
    from s2d_tf.posthoc.predictor import State
    from s2d_tf.posthoc.source import Source

MIN_DISTANCE = 1e-8
"""Features at the training mean have no direction; this keeps their score finite."""


def _virtual_logit_score(
    features: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    origin: tf.Tensor,
    residual: tf.Tensor,
    scale: tf.Tensor,
) -> tf.Tensor:
    """The virtual logit less the free energy of the others (ViM).

    Args:
        features: `[batch, d]`.
        kernel, bias: the linear head, `[d, classes]` and `[classes]`.
        origin: the point from which features are measured, `[d]`.
        residual: basis of the space that training features hardly use, `[d, d - dimension]`.
        scale: makes virtual logits as large as the largest logits on average.
    """
    energy = log_sum_exp(tf.matmul(features, kernel) + bias)
    outside = tf.matmul(features - origin, residual)
    return scale * tf.sqrt(tf.reduce_sum(tf.square(outside), axis=-1)) - energy


def _boundary_distance_score(
    features: tf.Tensor,
    kernel: tf.Tensor,
    bias: tf.Tensor,
    mean: tf.Tensor,
    boundary_norms: tf.Tensor,
) -> tf.Tensor:
    """The negated mean distance to the decision boundaries, relative to that to the mean (fDBD).

    Args:
        features: `[batch, d]`.
        kernel, bias: the linear head.
        mean: training mean `[d]`.
        boundary_norms: lengths of the differences of class kernels, `[classes, classes]`, 1 on the
            diagonal.
    """
    logits = tf.matmul(features, kernel) + bias
    norms = tf.gather(boundary_norms, tf.argmax(logits, axis=-1))
    margins = tf.reduce_max(logits, axis=-1, keepdims=True) - logits
    from_mean = tf.sqrt(tf.reduce_sum(tf.square(features - mean), axis=-1))
    total = tf.reduce_sum(margins / norms, axis=-1)
    return -total / ((logits.shape[-1] - 1) * tf.maximum(from_mean, MIN_DISTANCE))


class ViM(Detector):
    """Virtual-logit matching (Wang et al., 2022).

    Args:
        dimension: of the space that training features use; default: half of the features' and at
            most 512, 1000 from 2048 features on, as in the paper.
        seed: of the random part of very many training examples.
        name: key of the score.

    Example:

    >>> posthoc.ViM(dimension=2).fit(model, (images, labels)).score(images).shape
    (40,)
    """

    output = "vim"
    reads_features = True

    def __init__(
        self, dimension: int | None = None, seed: int = 0, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.dimension = None if dimension is None else checks.positive(dimension, "dimension", int)
        self.seed = seed

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        head = source.head()
        kernel, bias = (head[name].astype(np.float64) for name in ("kernel", "bias"))
        features = source.sample_features(self.seed).astype(np.float64)
        width = features.shape[1]
        dimension = self.dimension or (1000 if width >= 2048 else min(512, width // 2))
        if dimension >= width:
            raise ValueError(
                f"dimension: expected less than the {width} features, received {dimension}. "
                "Lower `dimension`."
            )
        checks.num_examples(len(features), dimension + 1)
        origin = -np.linalg.pinv(kernel.T) @ bias
        centered = features - origin
        _, vectors = np.linalg.eigh(centered.T @ centered / len(features))
        residual = vectors[:, : width - dimension]
        norms = np.linalg.norm(centered @ residual, axis=1)
        largest = (features @ kernel + bias).max(axis=1)
        if not norms.mean() > 1e-9 * np.abs(centered).mean():
            raise ValueError(
                f"dimension: expected one that leaves a residual, received {dimension}, which "
                "holds all training features. Lower `dimension`."
            )
        scale = largest.mean() / norms.mean()
        return {**head, "origin": origin, "residual": residual, "scale": scale}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return _virtual_logit_score(state.features, **fitted)


class FDBD(Detector):
    """Distances to the decision boundaries (Liu & Qin, 2024).

    Example:

    >>> posthoc.FDBD().fit(model, (images, labels)).score(images).shape
    (40,)
    """

    output = "fdbd"
    reads_features = True

    def estimate(self, source: Source) -> dict[str, Any]:
        head = source.head()
        total, count = 0.0, 0
        for state, _ in source.blocks(features=True):
            features = checks.finite(state.features.numpy(), "features")
            total, count = total + features.sum(axis=0, dtype=np.float64), count + len(features)
        kernel = head["kernel"].T.astype(np.float64)
        norms = np.stack([np.linalg.norm(kernel - row, axis=1) for row in kernel])
        np.fill_diagonal(norms, 1.0)
        if not norms.min() > 0:
            raise ValueError(
                "model: expected classes with different kernels, received two equal ones. Train "
                "the model first."
            )
        return {**head, "mean": total / count, "boundary_norms": norms}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return _boundary_distance_score(state.features, **fitted)
