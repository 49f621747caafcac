"""How sure a number is: over seeds, over test examples, and for the difference of two runs.

Single runs get bootstrap intervals over the test examples: the spread that another test set of this
size would show, not the spread over seeds. They are percentile intervals (Efron and Tibshirani,
1993, chapter 13), except for the calibration error. A resample is less calibrated than its source,
so the percentiles of its error lie too high, for a calibrated model wholly above the truth. There
the basic interval is taken (Davison and Hinkley, 1997, chapter 5), which reflects the percentiles
around the estimate; it reaches down to 0 where resampling alone makes such an error, and up to the
estimate at least.
"""

import dataclasses

import numpy as np
from scipy import stats

from s2d_tf import metrics
from s2d_tf.evaluation import resampling
from s2d_tf.metrics import checks

NUM_RESAMPLES = 10_000


@dataclasses.dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval."""

    estimate: float
    low: float
    high: float
    level: float = 0.95

    @property
    def excludes_zero(self):
        """For a difference: whether it is told from zero at this level."""
        return self.low > 0.0 or self.high < 0.0


@dataclasses.dataclass(frozen=True)
class SeedComparison:
    """A paired comparison over seeds; differences are first minus second.

    `std` is the sample standard deviation of the differences and `low`, `high` Student's interval
    for their mean; all three are None for a single pair. `positive`, `negative` and `ties` count
    the signs; `sign_p_value` is the two-sided sign test without the ties.
    """

    num_pairs: int
    mean_difference: float
    std: float | None
    low: float | None
    high: float | None
    positive: int
    negative: int
    ties: int
    sign_p_value: float
    level: float


def mean_and_two_std(values):
    """Mean and two sample standard deviations (divisor n - 1) over seeds, as the paper prints them.

    The second is None for a single value. Five seeds give only a rough standard deviation: the true
    one lies between 0.6 and 2.9 times it, at 95%.
    """
    values = checks.as_scores(values, "values")
    return float(values.mean()), float(2.0 * values.std(ddof=1)) if values.size > 1 else None


def bootstrap_classification(
    log_probs, labels, num_resamples=NUM_RESAMPLES, seed=0, level=0.95, num_bins=15
):
    """Intervals of accuracy, nll, ece and brier for one model.

    Args:
        log_probs: `[examples, classes]` logits or log-probabilities, for members the log of their
            mean probability; normalised inside.
        labels: `[examples]` integer classes.
        num_resamples: number of bootstrap resamples.
        seed: integer; the same seed gives the same intervals.
        level: confidence level.
        num_bins: bins of the calibration error.

    Returns:
        Dict of `Interval`.
    """
    log_probs, labels = _classification_input(log_probs, labels)
    (samples,) = resampling.classification_resamples(
        [log_probs], labels, _checked(num_resamples, level), seed, num_bins
    )
    estimates = _classification_estimates(log_probs, labels, num_bins)
    intervals = {name: _percentile(estimates[name], samples[name], level) for name in estimates}
    intervals["ece"] = _calibration_interval(
        estimates["ece"], samples["ece"], samples["ece_noise"], level
    )
    return intervals


def compare_classification(
    log_probs_a, log_probs_b, labels, num_resamples=NUM_RESAMPLES, seed=0, level=0.95, num_bins=15
):
    """Intervals of the differences a - b of two models on the same examples, resampled in pairs."""
    log_probs_a, labels = _classification_input(log_probs_a, labels)
    log_probs_b, _ = _classification_input(log_probs_b, labels)
    samples_a, samples_b = resampling.classification_resamples(
        [log_probs_a, log_probs_b], labels, _checked(num_resamples, level), seed, num_bins
    )
    a = _classification_estimates(log_probs_a, labels, num_bins)
    b = _classification_estimates(log_probs_b, labels, num_bins)
    return {
        name: (_basic if name == "ece" else _percentile)(
            a[name] - b[name], samples_a[name] - samples_b[name], level
        )
        for name in a
    }


def bootstrap_detection(id_scores, ood_scores, num_resamples=NUM_RESAMPLES, seed=0, level=0.95):
    """Intervals of AUROC and AUPR for one model; ID and OOD examples are resampled separately.

    Args:
        id_scores: dict of scores of the ID examples, such as `{"total": ..., "knowledge": ...}`.
        ood_scores: dict of scores of the OOD examples, with the same keys. All scores of an
            example are resampled together.
        num_resamples: number of bootstrap resamples.
        seed: integer; the same seed gives the same intervals.
        level: confidence level.

    Returns:
        Dict of `Interval` with keys `auroc/total`, `aupr/total`, ...
    """
    pairs = _detection_input(id_scores, ood_scores)
    samples = resampling.detection_resamples(
        list(pairs.values()), _checked(num_resamples, level), seed
    )
    return {
        f"{metric}/{name}": _percentile(getattr(metrics, metric)(*pair), own[metric], level)
        for (name, pair), own in zip(pairs.items(), samples, strict=True)
        for metric in ("auroc", "aupr")
    }


def compare_detection(
    id_scores_a,
    ood_scores_a,
    id_scores_b,
    ood_scores_b,
    num_resamples=NUM_RESAMPLES,
    seed=0,
    level=0.95,
):
    """Intervals of the differences a - b for the scores that both models have.

    The two models have scored the same examples in the same order, which are resampled in pairs.
    """
    a = _detection_input(id_scores_a, ood_scores_a)
    b = _detection_input(id_scores_b, ood_scores_b)
    names = [name for name in a if name in b]
    if not names:
        raise ValueError(f"the models share no score: {', '.join(a)} against {', '.join(b)}.")
    pairs = [a[name] for name in names] + [b[name] for name in names]
    if len({(id_part.size, ood_part.size) for id_part, ood_part in pairs}) > 1:
        raise ValueError(
            "both models must have scored the same examples; received sets of different sizes."
        )
    samples = resampling.detection_resamples(pairs, _checked(num_resamples, level), seed)
    found = {}
    for index, name in enumerate(names):
        for metric in ("auroc", "aupr"):
            function = getattr(metrics, metric)
            difference = function(*a[name]) - function(*b[name])
            resampled = samples[index][metric] - samples[len(names) + index][metric]
            found[f"{metric}/{name}"] = _percentile(difference, resampled, level)
    return found


def compare_over_seeds(values_a, values_b, level=0.95):
    """Paired comparison of a metric of two methods, one pair per seed; differences are a - b."""
    values_a = checks.as_scores(values_a, "values_a")
    values_b = checks.as_scores(values_b, "values_b")
    if values_a.size != values_b.size:
        raise ValueError(
            "values_a and values_b must be paired by seed; received "
            f"{values_a.size} and {values_b.size} values."
        )
    _checked(1, level)
    differences = values_a - values_b
    mean, std, low, high = float(differences.mean()), None, None, None
    if differences.size > 1:
        std = float(differences.std(ddof=1))
        quantile = stats.t.ppf((1.0 + level) / 2.0, differences.size - 1)
        half_width = float(quantile * std / np.sqrt(differences.size))
        low, high = mean - half_width, mean + half_width
    positive, negative = int((differences > 0).sum()), int((differences < 0).sum())
    decided = positive + negative
    return SeedComparison(
        num_pairs=differences.size,
        mean_difference=mean,
        std=std,
        low=low,
        high=high,
        positive=positive,
        negative=negative,
        ties=differences.size - decided,
        sign_p_value=float(stats.binomtest(positive, decided).pvalue) if decided else 1.0,
        level=level,
    )


def _percentile(estimate, samples, level):
    low, high = np.quantile(samples, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Interval(float(estimate), float(low), float(high), level)


def _basic(estimate, samples, level):
    percentile = _percentile(estimate, samples, level)
    low, high = 2.0 * estimate - percentile.high, 2.0 * estimate - percentile.low
    return Interval(float(estimate), low, high, level)


def _calibration_interval(estimate, samples, noise, level):
    basic = _basic(estimate, samples, level)
    may_be_noise = estimate <= np.quantile(noise, (1.0 + level) / 2.0)
    low = 0.0 if may_be_noise else max(basic.low, 0.0)
    return Interval(basic.estimate, low, min(max(basic.high, estimate), 1.0), level)


def _classification_estimates(log_probs, labels, num_bins):
    log_probs = metrics.scale_log_probs(log_probs, 1.0)
    probs = np.exp(log_probs)
    return {
        "accuracy": metrics.accuracy(probs, labels),
        "nll": metrics.negative_log_likelihood_from_log_probs(log_probs, labels),
        "ece": metrics.expected_calibration_error(probs, labels, num_bins),
        "brier": metrics.brier_score(probs, labels),
    }


def _classification_input(log_probs, labels):
    log_probs = checks.as_matrix(log_probs, "log_probs")
    return log_probs, checks.as_labels(labels, *log_probs.shape)


def _detection_input(id_scores, ood_scores):
    if not id_scores or set(id_scores) != set(ood_scores):
        raise ValueError(
            "id_scores and ood_scores must be dicts with the same keys; received "
            f"{sorted(id_scores)} and {sorted(ood_scores)}."
        )
    pairs = {
        name: (
            checks.as_scores(id_scores[name], f"id_scores[{name!r}]"),
            checks.as_scores(ood_scores[name], f"ood_scores[{name!r}]"),
        )
        for name in id_scores
    }
    if len({(id_part.size, ood_part.size) for id_part, ood_part in pairs.values()}) > 1:
        raise ValueError("all scores of a data set must be of the same examples; sizes differ.")
    return pairs


def _checked(num_resamples, level):
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, such as 0.95; received {level!r}.")
    return checks.as_positive_int(num_resamples, "num_resamples")
