"""Detectors that describe the features of each class by a Gaussian."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf.models.contract import require
from s2d_tf.posthoc.prediction_scores import log_sum_exp
from s2d_tf.posthoc.predictor import State
from s2d_tf.posthoc.step import Detector, FitData, check_every_class

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


class Moments:
    """Sums over a stream of labeled feature vectors, in float64.

    Args:
        num_classes: number of classes.
        per_class: whether to keep a covariance of each class, `classes * d * d` numbers.
    """

    def __init__(self, num_classes: int, per_class: bool = False) -> None:
        self.counts = np.zeros(num_classes, np.int64)
        self.per_class = per_class
        self._shift: Any = None

    def add(self, features: np.ndarray, labels: np.ndarray) -> None:
        """Adds a block `[n, d]` and its labels `[n]`."""
        features = np.asarray(features, np.float64)
        num_classes, width = len(self.counts), features.shape[1]
        if self._shift is None:
            # Second moments about a point near the mean keep their digits.
            self._shift = features.mean(axis=0)
            self._sums = np.zeros([num_classes, width])
            self._products = np.zeros([num_classes if self.per_class else 1, width, width])
        features = features - self._shift
        members = labels[:, None] == np.arange(num_classes)
        self.counts += members.sum(axis=0)
        self._sums += members.T.astype(np.float64) @ features
        if not self.per_class:
            self._products[0] += features.T @ features
            return
        for c in np.unique(labels):
            rows = features[labels == c]
            self._products[c] += rows.T @ rows

    def means(self) -> np.ndarray:
        """Class means `[classes, d]`."""
        return self._sums / self.counts[:, None] + self._shift

    def mean(self) -> np.ndarray:
        """The mean of all, `[d]`."""
        return self._sums.sum(axis=0) / self.counts.sum() + self._shift

    def within(self, c: int | None = None) -> np.ndarray:
        """The covariance about the class means, of all classes together or of class `c`."""
        if c is not None:
            return _covariance(self._products[c], self._sums[[c]], self.counts[[c]])
        return _covariance(self._products.sum(axis=0), self._sums, self.counts)

    def total(self) -> np.ndarray:
        """The covariance about the mean of all."""
        sums, count = self._sums.sum(axis=0, keepdims=True), self.counts.sum(keepdims=True)
        return _covariance(self._products.sum(axis=0), sums, count)


class _GaussianDetector(Detector):
    """Base of the detectors that stream class means and covariances."""

    reads_features = True
    per_class = False

    def __init__(self, shrinkage: float = SHRINKAGE, name: str | None = None) -> None:
        super().__init__(name)
        require(
            not isinstance(shrinkage, bool) and 0 <= shrinkage <= 1,
            f"shrinkage: expected a number from 0 to 1, received {shrinkage!r}. Pass a fraction.",
        )
        self.shrinkage = shrinkage

    def moments(self, data: FitData) -> Moments:
        moments = Moments(data.model.num_classes, self.per_class)
        for features, labels in data.labeled_features():
            moments.add(features, labels)
        check_every_class(moments.counts)
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

    title = "Mahalanobis"
    output = "mahalanobis"

    def estimate(self, data: FitData) -> dict[str, np.ndarray]:
        moments = self.moments(data)
        return _whitened(moments, _shrink(moments.within(), self.shrinkage), moments.means())

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return _nearest(_squared_distances(state.features, **fitted))


class RelativeMahalanobis(_GaussianDetector):
    """Mahalanobis distance less that to one Gaussian of all classes (Ren et al., 2021).

    Args:
        shrinkage: share of the mean variance in both covariances.
        name: key of the score.

    Example:

    >>> posthoc.RelativeMahalanobis().fit(model, (images, labels)).score(images).shape
    (40,)
    """

    title = "Relative Mahalanobis"
    output = "relative_mahalanobis"

    def estimate(self, data: FitData) -> dict[str, np.ndarray]:
        moments = self.moments(data)
        within = _whitened(moments, _shrink(moments.within(), self.shrinkage), moments.means())
        total = _whitened(moments, _shrink(moments.total(), self.shrinkage), moments.mean()[None])
        background = {f"background_{name}": total[name] for name in ("whitening", "means")}
        return {**within, **background}

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        shift = fitted["shift"]
        distances = _squared_distances(state.features, shift, fitted["whitening"], fitted["means"])
        background = _squared_distances(
            state.features, shift, fitted["background_whitening"], fitted["background_means"]
        )
        return _nearest(distances) - background[:, 0]


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

    title = "Feature density (DDU)"
    output = "feature_density"
    per_class = True

    def __init__(self, shrinkage: float = CLASS_SHRINKAGE, name: str | None = None) -> None:
        super().__init__(shrinkage, name)

    def estimate(self, data: FitData) -> dict[str, np.ndarray]:
        moments = self.moments(data)
        common = _shrink(moments.within(), SHRINKAGE)
        shift, means = moments.mean(), moments.means()
        whitening, offsets, log_normalizers = [], [], []
        for c, count in enumerate(moments.counts):
            covariance = (1 - self.shrinkage) * moments.within(c) + self.shrinkage * common
            factor = _cholesky(covariance, f"class {c}")
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
        num_classes, width = fitted["log_normalizers"].shape[0], fitted["shift"].shape[0]
        white = tf.matmul(state.features - fitted["shift"], fitted["whitening"])
        white = tf.reshape(white - fitted["offsets"], [-1, num_classes, width])
        distances = tf.reduce_sum(tf.square(white), axis=-1)
        return -log_sum_exp(fitted["log_normalizers"] - 0.5 * distances)


def _whitened(moments: Moments, covariance: np.ndarray, means: np.ndarray) -> dict:
    """The arrays of `_squared_distances`."""
    factor = _cholesky(covariance, "all classes together")
    whitening, shift = np.linalg.inv(factor).T, moments.mean()
    return {"shift": shift, "whitening": whitening, "means": (means - shift) @ whitening}


def _nearest(distances):
    """The smallest distance; exported models have a maximum only."""
    return -tf.reduce_max(-distances, axis=-1)


def _shrink(covariance: np.ndarray, amount: float) -> np.ndarray:
    """A covariance moved toward its mean variance times the identity."""
    width = len(covariance)
    target = np.trace(covariance) / width * np.eye(width)
    return (1 - amount) * covariance + amount * target


def _covariance(products, sums, counts):
    """About the means of groups: `[d, d]` of all, sums `[groups, d]` and counts of each."""
    return (products - (sums / counts[:, None]).T @ sums) / counts.sum()


def _cholesky(matrix: np.ndarray, what: str) -> np.ndarray:
    """The lower Cholesky factor of a covariance, which must not be singular."""
    # A variance that is rounding error would turn noise into the largest distances.
    require(
        np.linalg.eigvalsh(matrix)[0] > 1e-13 * np.diag(matrix).max(),
        f"data: expected features with a regular covariance, received a singular one for "
        f"{what}. Raise `shrinkage`, or add examples.",
    )
    return np.linalg.cholesky(matrix)
