"""Bootstrap intervals of metrics under shift: of one model, or of the difference of two.

A resample draws images, and takes each with all of its corrupted versions and with both models'
answers: so comparisons are paired, and conditions that share their images are not taken for
independent evidence. As `intervals`, they say what another test set would give, not other seeds.
"""

import numpy as np
from scipy import stats

from s2d_tf import metrics
from s2d_tf.evaluation.resampling import draw_counts
from s2d_tf.metrics.statistics import LEVEL

from .shift import Shift

NUM_RESAMPLES = 1_000
# Resamples that are handled at once: their counts of 10,000 images take 5 MB.
_STEP = 64


def shift_intervals(
    first: Shift, second: Shift | None = None, num_resamples: int = NUM_RESAMPLES, seed: int = 0
) -> dict[str, dict[str, float]]:
    """95% intervals of the means over conditions, and of the rank correlations.

    Args:
        first: answers of a model.
        second: answers of another on the same images: then the intervals are of the differences,
            first minus second, for the uncertainties that both have.
        num_resamples: number of bootstrap resamples of the test images.
        seed: integer; the same seed gives the same intervals.

    Returns:
        `{"NAME/nll": {"estimate", "low", "high", "level"}, ...}`, as `intervals.of_gathered`.

    Raises:
        ValueError: the two have other conditions or numbers of images.

    Example:

    >>> labels = np.arange(len(images)) % 3
    >>> own = {"clean": (images, labels), "dark_1": (images // 2, labels)}
    >>> shift = evaluation.evaluate_shift(model, own)
    >>> found = evaluation.shift_intervals(shift, num_resamples=50)
    >>> found["shift/accuracy"]["low"] <= found["shift/accuracy"]["high"]
    True
    """
    pair = [shift for shift in (first, second) if shift is not None]
    sizes = [{name: len(own) for name, own in shift.answers.items()} for shift in pair]
    if sizes[0] != sizes[-1] or len(set(sizes[0].values())) > 1:
        raise ValueError(
            "second: expected the same conditions with as many images each, received "
            f"{len(sizes[-1])} conditions of {sorted(set(sizes[-1].values()))} images instead of "
            f"{len(sizes[0])} of {sorted(set(sizes[0].values()))}. Evaluate both in the same way."
        )
    drawn = [_resamples(shift, num_resamples, seed) for shift in pair]
    found = {}
    for key in drawn[0]:
        if key not in drawn[-1]:
            continue
        values = drawn[0][key] - drawn[1][key] if second else drawn[0][key]
        low, high = np.quantile(values[1:], [(1.0 - LEVEL) / 2.0, (1.0 + LEVEL) / 2.0])
        if key == "ece":  # A resample is less calibrated than its source: the basic interval.
            low, high = 2.0 * values[0] - high, 2.0 * values[0] - low
            low, high = (low, high) if second else (max(low, 0.0), max(high, values[0]))
        found[f"{first.name}/{key}"] = {
            "estimate": float(values[0]),
            "low": float(low),
            "high": float(high),
            "level": LEVEL,
        }
    return found


def _resamples(shift, num_resamples, seed):
    """`{key: [1 + num_resamples]}`, the test set itself first; one condition at a time."""
    size = len(next(iter(shift.answers.values())))
    counts = list(draw_counts(size, num_resamples, (seed, 0), _STEP))
    sums: dict[str, np.ndarray] = {}
    errors_of_calibration: list[np.ndarray] = []
    aurocs: dict[str, list] = {score: [] for score in shift.scores}
    for name, own in shift.answers.items():
        scores = [own.scores[score] for score in shift.scores]
        columns = np.column_stack([own.correct, -own.log_prob, *scores])
        sums[name] = np.concatenate([block @ columns for block in counts]) / size
        if name not in shift.averaged:
            continue
        gaps = np.concatenate([own.calibration_gaps(block) for block in counts])
        errors_of_calibration.append(np.abs(gaps).sum(axis=-1))
        right = own.correct
        for score in shift.scores if 0 < right.sum() < size else ():
            ranking = metrics.Ranking(own.scores[score][right], own.scores[score][~right])
            drawn = [ranking.auroc(block[:, right], block[:, ~right]) for block in counts]
            aurocs[score].append(np.concatenate(drawn))
    averaged = np.array([sums[name] for name in shift.averaged])
    found = {
        "accuracy": averaged[..., 0].mean(axis=0),
        "nll": averaged[..., 1].mean(axis=0),
        "ece": np.mean(errors_of_calibration, axis=0),
    }
    errors = 1.0 - np.array([own[:, 0] for own in sums.values()])
    for i, score in enumerate(shift.scores):
        values = np.array([own[:, 2 + i] for own in sums.values()])
        if aurocs[score]:
            found[f"error_auroc/{score}"] = np.nanmean(aurocs[score], axis=0)
        if len(sums) > 1:
            found[f"shift_correlation/{score}"] = _correlation(values, errors)
    return found


def _correlation(first, second):
    """Spearman's over the first axis, ties averaged, 0 where one is constant."""
    first, second = (stats.rankdata(values, axis=0) for values in (first, second))
    first, second = (values - values.mean(axis=0) for values in (first, second))
    norm = np.sqrt((first**2).sum(axis=0) * (second**2).sum(axis=0))
    return np.where(norm > 0, (first * second).sum(axis=0) / np.where(norm > 0, norm, 1.0), 0.0)
