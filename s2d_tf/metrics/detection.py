"""Out-of-distribution detection: OOD is the positive class, a larger score means more OOD.

All are exact and depend on the order of the scores alone: equal scores form one threshold. The
ranking is scikit-learn's. The average precision (AUPR) is the step-wise sum, not the optimistic
trapezoid, and it depends on the numbers of ID and OOD examples; AUROC does not.
"""

from __future__ import annotations

import numpy as np
from sklearn import metrics as sklearn_metrics

from s2d_tf._types import Array, ArrayLike
from s2d_tf.metrics import checks


def auroc(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Probability that an OOD example scores above an ID one, ties half; constants give 0.5.

    Example:

    >>> metrics.auroc(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9])
    0.75
    """
    return float(sklearn_metrics.roc_auc_score(*_targets_and_scores(id_scores, ood_scores)))


def aupr(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Step-wise average precision of OOD; constant scores give the fraction of OOD examples.

    Example:

    >>> round(metrics.aupr(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9]), 4)
    0.8333
    """
    return float(
        sklearn_metrics.average_precision_score(*_targets_and_scores(id_scores, ood_scores))
    )


def fpr_at_95_recall(id_scores: ArrayLike, ood_scores: ArrayLike) -> float:
    """Fraction of ID examples flagged at the highest threshold that finds at least 95% of OOD.

    OOD is positive (ODIN's own metric takes ID as positive). No interpolation between thresholds;
    constants give 1.

    Example:

    >>> metrics.fpr_at_95_recall(id_scores=[0.1, 0.4], ood_scores=[0.3, 0.9])
    0.5
    """
    false_positive_rate, recall, _ = roc_curve(id_scores, ood_scores)
    return float(false_positive_rate[np.argmax(recall >= 0.95)])


def roc_curve(id_scores: ArrayLike, ood_scores: ArrayLike) -> tuple[Array, Array, Array]:
    """False positive rates, recalls and thresholds at each distinct score, from (0, 0) on.

    Example:

    >>> false_positive_rate, recall, thresholds = metrics.roc_curve([0.1, 0.4], [0.3, 0.9])
    >>> recall.tolist()
    [0.0, 0.5, 0.5, 1.0, 1.0]
    """
    return sklearn_metrics.roc_curve(
        *_targets_and_scores(id_scores, ood_scores), drop_intermediate=False
    )


def precision_recall_curve(
    id_scores: ArrayLike, ood_scores: ArrayLike
) -> tuple[Array, Array, Array]:
    """Precisions, recalls and thresholds as scikit-learn orders them: from recall 1 down to 0.

    Out-of-distribution examples are positive, and higher scores mean out of distribution. There is
    one threshold fewer than precisions.

    Example:

    >>> precision, recall, thresholds = metrics.precision_recall_curve([0.1, 0.4], [0.3, 0.9])
    >>> recall.tolist()
    [1.0, 1.0, 0.5, 0.5, 0.0]
    """
    return sklearn_metrics.precision_recall_curve(*_targets_and_scores(id_scores, ood_scores))


def _targets_and_scores(id_scores, ood_scores):
    id_scores = checks.as_scores(id_scores, "id_scores")
    ood_scores = checks.as_scores(ood_scores, "ood_scores")
    is_ood = np.repeat((False, True), (id_scores.size, ood_scores.size))
    return is_ood, np.concatenate((id_scores, ood_scores))
