"""Metrics of many bootstrap resamples at once, exactly, without sorting or averaging each anew.

A resample of n examples is n draws with replacement; all that a metric needs to know is how often
each example was drawn. So the counts `[examples, resamples]` are drawn once and shared by every
metric, score and model, which makes comparisons paired. Means, and the bins of the calibration
error, are then matrix products; for the ranking metrics the examples are sorted once and one pass
over them updates all resamples together.
"""

import numpy as np

from s2d_tf.metrics import checks
from s2d_tf.metrics.calibration import bin_indices

# Counts are kept in a byte (an example drawn 256 times does not happen) and in pieces of this many.
CHUNK_BYTES = 64 * 2**20
_STRIP = 64


def draw_counts(num_examples, num_resamples, rng):
    """How often each example is drawn: uint8 `[num_examples, num_resamples]`."""
    counts = np.empty((num_examples, num_resamples), dtype=np.uint8)
    # Filled a strip at a time: writing single columns would touch a new cache line per example.
    strip = np.empty((_STRIP, num_examples), dtype=np.uint8)
    for start in range(0, num_resamples, _STRIP):
        width = min(_STRIP, num_resamples - start)
        for index in range(width):
            drawn = rng.integers(0, num_examples, size=num_examples, dtype=np.uint32)
            strip[index] = np.bincount(drawn, minlength=num_examples)
        counts[:, start : start + width] = strip[:width].T
    return counts


def classification_resamples(models, labels, num_resamples, seed, num_bins=15):
    """Metrics of resampled test sets.

    Args:
        models: list of log-probabilities `[examples, classes]`, all of the same examples.
        labels: `[examples]` integer classes.
        num_resamples: number of resamples.
        seed: integer; the same seed draws the same resamples.
        num_bins: bins of the calibration error.

    Returns:
        For each model a dict of `[num_resamples]` arrays: accuracy, nll, ece, brier, and ece_noise,
        the part of the calibration error that resampling alone makes: the distance of the gaps of
        the bins from those of the whole set.
    """
    columns = [_per_example(log_probs, labels, num_bins) for log_probs in models]
    stacked = np.concatenate(columns, axis=1).T
    # A quarter as many at a time: the fast product wants float64, which is 8 times larger.
    size = max(1, _chunk_size(labels.size) // 4)
    sums = [
        stacked @ counts.astype(np.float64)
        for counts in _chunks(labels.size, num_resamples, (seed, 0), size)
    ]
    means = np.concatenate(sums, axis=1) / labels.size
    return [
        {
            "accuracy": part[0],
            "nll": part[1],
            "brier": part[2],
            "ece": np.abs(part[3:]).sum(axis=0),
            "ece_noise": np.abs(part[3:] - column[:, 3:].mean(axis=0)[:, np.newaxis]).sum(axis=0),
        }
        for part, column in zip(np.split(means, len(models)), columns, strict=True)
    ]


def detection_resamples(scores, num_resamples, seed):
    """AUROC and AUPR of resampled ID and OOD sets, each of its own size.

    Args:
        scores: list of pairs `(id_scores, ood_scores)`, all of the same examples.
        num_resamples: number of resamples.
        seed: integer; the same seed draws the same resamples.

    Returns:
        For each pair a dict of `[num_resamples]` arrays: auroc, aupr.
    """
    num_id, num_ood = scores[0][0].size, scores[0][1].size
    steps = [_ranking_steps(*pair) for pair in scores]
    parts = [[] for _ in scores]
    size = _chunk_size(num_id + num_ood)
    for id_counts, ood_counts in zip(
        _chunks(num_id, num_resamples, (seed, 0), size),
        _chunks(num_ood, num_resamples, (seed, 1), size),
        strict=True,
    ):
        for index, (groups, order) in enumerate(steps):
            parts[index].append(_rank(groups, order, id_counts, ood_counts))
    return [
        {
            name: np.concatenate([part[row] for part in own])
            for row, name in enumerate(("auroc", "aupr"))
        }
        for own in parts
    ]


def _per_example(log_probs, labels, num_bins):
    """Columns whose means over the examples give every classification metric."""
    log_probs = checks.as_matrix(log_probs, "log_probs")
    shifted = log_probs - log_probs.max(axis=-1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
    probs, rows = np.exp(log_probs), np.arange(labels.size)
    predicted = probs.argmax(axis=-1)
    correct = (predicted == labels).astype(np.float64)
    confidence = probs[rows, predicted]
    one_hot = np.zeros_like(probs)
    one_hot[rows, labels] = 1.0
    gaps = np.zeros((labels.size, num_bins))
    gaps[rows, bin_indices(confidence, num_bins)] = confidence - correct
    brier = np.sum((probs - one_hot) ** 2, axis=-1)
    return np.column_stack((correct, -log_probs[rows, labels], brier, gaps))


def _ranking_steps(id_scores, ood_scores):
    """Groups of equal scores in descending order, as `(ID rows, OOD rows)` slices of the orders."""
    values = np.unique(np.concatenate((id_scores, ood_scores)))[::-1]
    orders = [np.argsort(-scores, kind="stable") for scores in (id_scores, ood_scores)]
    ends = [
        np.searchsorted(-scores[order], -values, side="right").tolist()
        for scores, order in zip((id_scores, ood_scores), orders, strict=True)
    ]
    return list(zip(*ends, strict=True)), orders


def _rank(groups, orders, id_counts, ood_counts):
    """One pass from the largest score down; every statement works on all resamples of the chunk."""
    id_rows, ood_rows = orders[0].tolist(), orders[1].tolist()
    flagged_id, found, wins, precision_sum, work = np.zeros((5, id_counts.shape[1]))
    id_end = ood_end = 0
    for next_id_end, next_ood_end in groups:
        new_id = _total(id_counts, id_rows[id_end:next_id_end])
        new_ood = _total(ood_counts, ood_rows[ood_end:next_ood_end])
        if new_id is not None:
            flagged_id += new_id
            # An ID example loses to the OOD examples above it, and half to those beside it.
            np.multiply(found, new_id, out=work)
            wins += work
            if new_ood is not None:
                wins += 0.5 * new_id * new_ood
        if new_ood is not None:
            found += new_ood
            np.add(found, flagged_id, out=work)
            # Where nothing has been drawn yet 0 / 1 stands for a precision that has no weight.
            np.maximum(work, 1.0, out=work)
            np.divide(found, work, out=work)
            work *= new_ood
            precision_sum += work
        id_end, ood_end = next_id_end, next_ood_end
    num_id, num_ood = id_counts.shape[0], ood_counts.shape[0]
    return wins / (num_id * num_ood), precision_sum / num_ood


def _total(counts, rows):
    if not rows:
        return None
    return counts[rows[0]] if len(rows) == 1 else counts[rows].sum(axis=0, dtype=np.float64)


def _chunk_size(num_examples):
    return max(1, CHUNK_BYTES // num_examples)


def _chunks(num_examples, num_resamples, seed, size):
    rng = np.random.default_rng(seed)
    for start in range(0, num_resamples, size):
        yield draw_counts(num_examples, min(size, num_resamples - start), rng)
