"""Out-of-distribution detection: OOD is the positive class, a larger score means more OOD.

All metrics are exact and depend on the order of the scores alone: equal scores form one threshold.
The average precision (AUPR) is the step-wise sum, not the optimistic trapezoid, and it depends on
the numbers of ID and OOD examples; AUROC does not.
"""

from __future__ import annotations

import numpy as np

from s2d_tf._types import Array, ArrayLike
from s2d_tf.metrics import checks


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Probability that an OOD example scores above an ID one, ties half; constants give 0.5.

    Example:

    >>> metrics.auroc(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9])
    0.75
    """
    return float(Ranking(id_scores, ood_scores).auroc())


def aupr(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Step-wise average precision of OOD; constant scores give the fraction of OOD examples.

    Example:

    >>> round(metrics.aupr(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9]), 4)
    0.8333
    """
    return float(Ranking(id_scores, ood_scores).aupr())


class Ranking:
    """ID and OOD scores, sorted once, for the metrics of any number of resamples.

    A resample is how often each example was drawn: `id_counts` and `ood_counts` have the shape
    `[resamples, examples]`; without them each example counts once.

    Args:
        id_scores, ood_scores: `[examples]`, larger = more out of distribution.

    Example:

    >>> ranking = metrics.Ranking(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9])
    >>> ranking.auroc(id_counts=np.array([[1, 1], [2, 0]]), ood_counts=np.array([[1, 1], [1, 1]]))
    array([0.75, 1.  ])
    """

    def __init__(self, id_scores: ArrayLike, ood_scores: ArrayLike) -> None:
        falling = -checks.as_scores(id_scores, "id_scores")
        ood_falling = -checks.as_scores(ood_scores, "ood_scores")
        self.id_order, self.ood_order = np.argsort(falling), np.argsort(ood_falling)
        id_sorted, ood_sorted = falling[self.id_order], ood_falling[self.ood_order]
        # How many OOD examples score above an ID one, and how many at least as high.
        self._above = np.searchsorted(ood_sorted, falling, side="left")
        self._reaching = np.searchsorted(ood_sorted, falling, side="right")
        # How many OOD and ID examples are flagged at the score of an OOD one.
        self._found = np.searchsorted(ood_sorted, ood_falling, side="right")
        self._flagged = np.searchsorted(id_sorted, ood_falling, side="right")

    def auroc(self, id_counts: Array | None = None, ood_counts: Array | None = None) -> Array:
        """A number, or `[resamples]`; NaN for a resample without ID or without OOD examples."""
        id_counts, ood_counts = self._counts(id_counts, ood_counts)
        above = _cumulated(ood_counts, self.ood_order)
        # Each pair is won by an OOD example that scores higher; equal scores share it.
        wins = (above.take(self._above, axis=-1) + above.take(self._reaching, axis=-1)) / 2.0
        pairs = id_counts.sum(axis=-1) * ood_counts.sum(axis=-1)
        with np.errstate(invalid="ignore"):
            return np.einsum("...e,...e->...", id_counts, wins) / pairs

    def aupr(self, id_counts: Array | None = None, ood_counts: Array | None = None) -> Array:
        """A number, or `[resamples]`; NaN for a resample without OOD examples."""
        id_counts, ood_counts = self._counts(id_counts, ood_counts)
        found = _cumulated(ood_counts, self.ood_order).take(self._found, axis=-1)
        flagged = _cumulated(id_counts, self.id_order).take(self._flagged, axis=-1)
        # Where nothing was drawn yet, 0 / 1 stands for a precision that has no weight.
        precision = found / np.maximum(found + flagged, 1.0)
        with np.errstate(invalid="ignore"):
            weighted = np.einsum("...e,...e->...", ood_counts, precision)
            return weighted / ood_counts.sum(axis=-1)

    def fpr_at_95_recall(
        self, id_counts: Array | None = None, ood_counts: Array | None = None
    ) -> Array:
        """A number, or `[resamples]`; NaN for a resample without ID or without OOD examples."""
        id_counts, ood_counts = self._counts(id_counts, ood_counts)
        found = _cumulated(ood_counts, self.ood_order).take(self._found, axis=-1)
        flagged = _cumulated(id_counts, self.id_order).take(self._flagged, axis=-1)
        with np.errstate(invalid="ignore"):
            recall = found / ood_counts.sum(axis=-1, keepdims=True)
            # The fewest flagged belong to the highest threshold.
            fewest = np.where(recall >= 0.95, flagged, np.inf).min(axis=-1)
            return fewest / id_counts.sum(axis=-1)

    def _counts(self, id_counts, ood_counts):
        once = np.ones(self.id_order.size), np.ones(self.ood_order.size)
        return (
            once[0] if id_counts is None else id_counts,
            once[1] if ood_counts is None else ood_counts,
        )


def fpr_at_95_recall(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Fraction of ID examples flagged at the highest threshold that finds at least 95% of OOD.

    OOD is positive (ODIN's own metric takes ID as positive). No interpolation between thresholds;
    constants give 1.

    Example:

    >>> metrics.fpr_at_95_recall(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9])
    0.5
    """
    return float(Ranking(id_scores, ood_scores).fpr_at_95_recall())


def roc_curve(id_scores: ArrayLike, ood_scores: ArrayLike) -> tuple[Array, Array, Array]:
    """False positive rates, recalls and thresholds at each distinct score, from (0, 0) on.

    Example:

    >>> false_positive_rate, recall, thresholds = metrics.roc_curve([0.1, 0.4], [0.3, 0.9])
    >>> recall.tolist()
    [0.0, 0.5, 0.5, 1.0, 1.0]
    """
    from sklearn import metrics as sklearn_metrics

    id_scores = checks.as_scores(id_scores, "id_scores")
    ood_scores = checks.as_scores(ood_scores, "ood_scores")
    is_ood = np.repeat((False, True), (id_scores.size, ood_scores.size))
    scores = np.concatenate((id_scores, ood_scores))
    return sklearn_metrics.roc_curve(is_ood, scores, drop_intermediate=False)


def _cumulated(counts, order):
    """Sums of the first 0, 1, 2, ... counts in an order, over the last axis."""
    total = np.zeros((*counts.shape[:-1], counts.shape[-1] + 1))
    np.cumsum(counts.take(order, axis=-1), axis=-1, out=total[..., 1:])
    return total
