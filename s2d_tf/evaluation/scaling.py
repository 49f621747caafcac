"""Metrics after temperature scaling, from probabilities that were never used to fit it.

A temperature is fitted on examples that the model has not been trained on. Where a run has kept
the validation split out of its training, that is the validation split. A run that was trained on
all training images has none left; then the test split is cut into two halves and each is scaled by
the temperature of the other, so that no example takes part in choosing its own temperature.
"""

import numpy as np

from s2d_tf import metrics
from s2d_tf.evaluation.evaluator import calibration

HALVES_SEED = 0


def scaled_metrics(dataset, scored, validation=None) -> dict[str, float]:
    """Metrics after scaling, under keys such as `"cifar100/scaled_nll"`.

    Args:
        dataset: name of the dataset.
        scored: `Scored` of its test split.
        validation: `Scored` of held-out examples, or None for the halves of the test split.

    Returns:
        Flat dict: `temperature` (of the halves the geometric mean), `scaled_nll`, `scaled_ece`,
        `scaled_adaptive_ece`, `scaled_brier`. Accuracy does not change.
    """
    if validation is not None:
        temperature = metrics.fit_temperature(validation.log_probs, validation.labels)
        log_probs = metrics.scale_log_probs(scored.log_probs, temperature)
    else:
        temperature, log_probs = _cross_fitted(scored)
    found = calibration(f"{dataset}/scaled_", log_probs, scored.labels)
    return {f"{dataset}/temperature": temperature, **found}


def _cross_fitted(scored):
    order = np.random.default_rng(HALVES_SEED).permutation(len(scored.labels))
    halves = order[::2], order[1::2]
    log_probs, temperatures = np.empty_like(scored.log_probs), []
    for own, other in (halves, halves[::-1]):
        temperature = metrics.fit_temperature(scored.log_probs[other], scored.labels[other])
        log_probs[own] = metrics.scale_log_probs(scored.log_probs[own], temperature)
        temperatures.append(temperature)
    return float(np.sqrt(np.prod(temperatures))), log_probs
