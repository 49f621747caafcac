"""Class means and covariances of a stream of feature vectors."""

from typing import Any

import numpy as np

from s2d_tf.posthoc import checks


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
        checks.every_class(self.counts)
        return self._sums / self.counts[:, None] + self._shift

    def mean(self) -> np.ndarray:
        """The mean of all, `[d]`."""
        return self._sums.sum(axis=0) / self.counts.sum() + self._shift

    def within(self, c: int | None = None) -> np.ndarray:
        """The covariance about the class means, of all classes together or of class `c`."""
        if c is not None:
            return _about(self._products[c], self._sums[c], self.counts[c]) / self.counts[c]
        between = sum(
            np.outer(total, total) / count
            for total, count in zip(self._sums, self.counts, strict=True)
        )
        return (self._products.sum(axis=0) - between) / self.counts.sum()

    def total(self) -> np.ndarray:
        """The covariance about the mean of all."""
        count = self.counts.sum()
        return _about(self._products.sum(axis=0), self._sums.sum(axis=0), count) / count


def shrink(covariance: np.ndarray, amount: float) -> np.ndarray:
    """A covariance moved toward its mean variance times the identity."""
    width = len(covariance)
    target = np.trace(covariance) / width * np.eye(width)
    return (1 - amount) * covariance + amount * target


def _about(products, sums, count):
    return products - np.outer(sums, sums) / count
