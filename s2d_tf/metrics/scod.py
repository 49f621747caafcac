"""Selective classification with out-of-distribution examples mixed in (SCOD).

One score decides what is answered. An answer is bad if the class is wrong or if the example belongs
to no class at all: a score that detects out-of-distribution examples but not wrong classes, or the
other way round, leaves one kind of bad answers (Xia and Bouganis, ACCV 2022).
"""

import numpy as np
from numpy.typing import ArrayLike

from s2d_tf.metrics import checks
from s2d_tf.metrics.selective import RiskCoverageCurve

OOD_SHARE = 0.5


def scod_risk_coverage_curve(
    id_scores: ArrayLike, id_errors: ArrayLike, ood_scores: ArrayLike, ood_share: float = OOD_SHARE
) -> RiskCoverageCurve:
    """Risk against coverage where a share of all examples is out of distribution.

    The examples are weighted, so the answer does not depend on the sizes of the two sets.

    Args:
        id_scores: uncertainties `[n]` of examples of known classes; the largest are rejected first.
        id_errors: `[n]`, 1 where the predicted class is wrong.
        ood_scores: uncertainties `[m]` of out-of-distribution examples; every answer is an error.
        ood_share: share of out-of-distribution examples in the mixture, in (0, 1).

    Returns:
        `RiskCoverageCurve`, one entry for each distinct score.

    Example:

    >>> curve = metrics.scod_risk_coverage_curve([0.1, 0.2], [0, 1], [0.3])
    >>> curve.coverage.tolist(), curve.selective_risk.tolist()
    ([0.25, 0.5, 1.0], [0.0, 0.5, 0.75])
    """
    id_scores = checks.as_scores(id_scores, "id_scores")
    ood_scores = checks.as_scores(ood_scores, "ood_scores")
    id_errors = checks.as_errors(id_errors, id_scores.size)
    if not 0.0 < ood_share < 1.0:
        raise ValueError(
            f"ood_share: expected a share in (0, 1), received {ood_share!r}. 0.5 is as many known "
            "as out-of-distribution examples."
        )
    sizes = id_scores.size, ood_scores.size
    weights = np.repeat([(1.0 - ood_share) / sizes[0], ood_share / sizes[1]], sizes)
    bad = weights * np.append(id_errors, np.ones(sizes[1]))
    threshold, group = np.unique(np.append(id_scores, ood_scores), return_inverse=True)
    coverage = np.cumsum(np.bincount(group, weights=weights))
    risk = np.cumsum(np.bincount(group, weights=bad))
    return RiskCoverageCurve(coverage, risk / coverage, risk, threshold)


def area_under_scod_risk_coverage(
    id_scores: ArrayLike, id_errors: ArrayLike, ood_scores: ArrayLike, ood_share: float = OOD_SHARE
) -> float:
    """AURC of the mixture: the share of bad answers at each example's own score, averaged.

    Constant scores give the share of bad answers among all; a perfect score still has to answer bad
    ones when the coverage passes the share of right ones.

    Args:
        id_scores, id_errors, ood_scores, ood_share: as for `scod_risk_coverage_curve`.

    Example:

    >>> metrics.area_under_scod_risk_coverage([0.0, 0.0], [0, 0], [1.0])
    0.25
    """
    curve = scod_risk_coverage_curve(id_scores, id_errors, ood_scores, ood_share)
    return float(np.sum(np.diff(curve.coverage, prepend=0.0) * curve.selective_risk))
