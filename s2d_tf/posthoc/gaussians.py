"""Detectors that describe the features of each class by a Gaussian."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf.posthoc import checks
from s2d_tf.posthoc.detector import Detector
from s2d_tf.posthoc.moments import Moments, shrink
from s2d_tf.posthoc.prediction_scores import log_sum_exp

if TYPE_CHECKING:
    from s2d_tf.posthoc.predictor import State
    from s2d_tf.posthoc.source import Source

SHRINKAGE = 1e-3
"""Share of the mean variance in a covariance: enough to invert it where features are constant or
depend on each other."""

CLASS_SHRINKAGE = 0.1
"""Share of the common covariance in that of a class, which has few examples."""


def _squared_distances(
    features: tf.Tensor, shift: tf.Tensor, whitening: tf.Tensor, means: tf.Tensor
) -> tf.Tensor:
    """Squared Mahalanobis distances `[batch, classes]`.

    Args:
        features: `[batch, d]`.
        shift: `[d]`, near the features, so that float32 keeps its digits.
        whitening: `[d, d]`, whose product with its transpose is the inverse covariance.
        means: whitened class means less the whitened shift, `[classes, d]`.
    """
    white = tf.matmul(features - shift, whitening)
    squares = tf.reduce_sum(tf.square(white), axis=-1, keepdims=True)
    products = tf.matmul(white, means, transpose_b=True)
    return tf.nn.relu(squares - 2.0 * products + tf.reduce_sum(tf.square(means), axis=-1))


def nearest(distances: tf.Tensor) -> tf.Tensor:
    """The smallest distance; exported models have a maximum only."""
    return -tf.reduce_max(-distances, axis=-1)


def _class_log_densities(
    features: tf.Tensor,
    shift: tf.Tensor,
    whitening: tf.Tensor,
    offsets: tf.Tensor,
    log_normalizers: tf.Tensor,
) -> tf.Tensor:
    """Log-densities `[batch, classes]` of Gaussians with a covariance each, times their priors.

    Args:
        features: `[batch, d]`.
        shift: `[d]`.
        whitening: `[d, classes * d]`, one whitening matrix beside the other.
        offsets: whitened class means less the whitened shift, `[classes * d]`.
        log_normalizers: `[classes]`: log-priors and all else that does not depend on the features.
    """
    num_classes, width = log_normalizers.shape[0], shift.shape[0]
    white = tf.matmul(features - shift, whitening) - offsets
    white = tf.reshape(white, [-1, num_classes, width])
    return log_normalizers - 0.5 * tf.reduce_sum(tf.square(white), axis=-1)


class _GaussianDetector(Detector):
    """Base of the detectors that stream class means and covariances."""

    reads_features = True
    per_class = False

    def __init__(self, shrinkage: float = SHRINKAGE, name: str | None = None) -> None:
        super().__init__(name)
        if isinstance(shrinkage, bool) or not 0 <= shrinkage <= 1:
            raise ValueError(
                f"shrinkage: expected a number from 0 to 1, received {shrinkage!r}. Pass a "
                "fraction."
            )
        self.shrinkage = shrinkage

    def moments(self, source: Source) -> Moments:
        moments = Moments(source.model.num_classes, self.per_class)
        for state, labels in source.blocks(features=True):
            features = checks.finite(state.features.numpy(), "features")
            moments.add(features, source.labels(labels, state))
        checks.every_class(moments.counts)
        return moments


class Mahalanobis(_GaussianDetector):
    """Squared distance to the nearest class mean, with one covariance (Lee et al., 2018).

    Args:
        shrinkage: share of the mean variance in the covariance.
        name: key of the score.

    Example:

    >>> detector = posthoc.Mahalanobis().fit(model, (images, labels))
    >>> detector.score(images).shape
    (40,)
    """

    output = "mahalanobis"

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        moments = self.moments(source)
        return _whitened(moments, shrink(moments.within(), self.shrinkage), moments.means())

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return nearest(_squared_distances(state.features, **fitted))


class RelativeMahalanobis(_GaussianDetector):
    """Mahalanobis distance less that to one Gaussian of all classes (Ren et al., 2021).

    Args:
        shrinkage: share of the mean variance in both covariances.
        name: key of the score.

    Example:

    >>> posthoc.RelativeMahalanobis().fit(model, (images, labels)).score(images).shape
    (40,)
    """

    output = "relative_mahalanobis"

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        moments = self.moments(source)
        within = _whitened(moments, shrink(moments.within(), self.shrinkage), moments.means())
        total = _whitened(moments, shrink(moments.total(), self.shrinkage), moments.mean()[None])
        background = {f"background_{name}": total[name] for name in ("whitening", "means")}
        return {**within, **background}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        shift = fitted["shift"]
        distances = _squared_distances(state.features, shift, fitted["whitening"], fitted["means"])
        background = _squared_distances(
            state.features, shift, fitted["background_whitening"], fitted["background_means"]
        )
        return nearest(distances) - background[:, 0]


class FeatureDensity(_GaussianDetector):
    """Negated log-density of a Gaussian for each class: the score of DDU (Mukhoti et al., 2023).

    The file and the work grow with classes times the squared number of features.

    Args:
        shrinkage: share of the common covariance in that of each class; the common one is shrunk by
            `SHRINKAGE` to its mean variance.
        name: key of the score.

    Example:

    >>> posthoc.FeatureDensity().fit(model, (images, labels)).score(images).shape
    (40,)
    """

    output = "feature_density"
    per_class = True

    def __init__(self, shrinkage: float = CLASS_SHRINKAGE, name: str | None = None) -> None:
        super().__init__(shrinkage, name)

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        moments = self.moments(source)
        common = shrink(moments.within(), SHRINKAGE)
        shift, means = moments.mean(), moments.means()
        whitening, offsets, log_normalizers = [], [], []
        for c, count in enumerate(moments.counts):
            covariance = (1 - self.shrinkage) * moments.within(c) + self.shrinkage * common
            factor = checks.cholesky(covariance, f"class {c}")
            whitening.append(np.linalg.inv(factor).T)
            offsets.append((means[c] - shift) @ whitening[-1])
            log_normalizers.append(
                math.log(count / moments.counts.sum())
                - np.log(np.diag(factor)).sum()
                - 0.5 * len(shift) * math.log(2 * math.pi)
            )
        return {
            "shift": shift,
            "whitening": np.concatenate(whitening, axis=1).astype(np.float32),
            "offsets": np.concatenate(offsets),
            "log_normalizers": np.array(log_normalizers),
        }

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return -log_sum_exp(_class_log_densities(state.features, **fitted))


def _whitened(moments: Moments, covariance: np.ndarray, means: np.ndarray) -> dict:
    """The arrays of `_squared_distances`."""
    factor = checks.cholesky(covariance, "all classes together")
    whitening, shift = np.linalg.inv(factor).T, moments.mean()
    return {"shift": shift, "whitening": whitening, "means": (means - shift) @ whitening}
