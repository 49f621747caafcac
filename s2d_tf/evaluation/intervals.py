"""Bootstrap intervals of the tables' metrics of one run, and of the differences of two."""

from s2d_tf.evaluation import statistics

SEED = 0


def of_gathered(gathered, num_resamples=statistics.NUM_RESAMPLES):
    """Intervals of a run's classification and detection metrics.

    Args:
        gathered: `evaluator.Gathered`.
        num_resamples: number of bootstrap resamples.

    Returns:
        Flat dict `{"cifar100/nll": {"estimate", "low", "high", "level"}, ...}`.
    """
    known = gathered.known
    found = _named(
        gathered.dataset,
        statistics.bootstrap_classification(known.log_probs, known.labels, num_resamples, SEED),
    )
    for name, unknown in gathered.unknown.items():
        found |= _named(
            name,
            statistics.bootstrap_detection(known.scores, unknown.scores, num_resamples, SEED),
        )
    return found


def of_difference(first, second, num_resamples=statistics.NUM_RESAMPLES):
    """Intervals of first minus second, two `Gathered` on the same data.

    Returns:
        As `of_gathered`, for the data sets and uncertainties that both have.
    """
    if first.facts[first.dataset] != second.facts.get(first.dataset):
        raise ValueError(
            "Expected two runs that were tested on the same images, received "
            f"{first.dataset} ({first.facts[first.dataset]['fingerprint'][:12]}) and "
            f"{second.dataset} ({second.facts[second.dataset]['fingerprint'][:12]})."
        )
    found = _named(
        first.dataset,
        statistics.compare_classification(
            first.known.log_probs, second.known.log_probs, first.known.labels, num_resamples, SEED
        ),
    )
    for name in (name for name in first.unknown if name in second.unknown):
        compared = statistics.compare_detection(
            first.known.scores,
            first.unknown[name].scores,
            second.known.scores,
            second.unknown[name].scores,
            num_resamples,
            SEED,
        )
        found |= _named(name, compared)
    return found


def _named(dataset, intervals):
    return {
        f"{dataset}/{key}": {
            "estimate": interval.estimate,
            "low": interval.low,
            "high": interval.high,
            "level": interval.level,
        }
        for key, interval in intervals.items()
    }
