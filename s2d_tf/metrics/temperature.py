"""Temperature scaling: one number, fitted on held-out examples, that softens predictions."""

import numpy as np

from s2d_tf.metrics import checks

# Where the best temperature does not exist (every label is the largest logit, or predictions are
# worse than chance) the answer is the end of this range.
MIN_TEMPERATURE = 1e-3
MAX_TEMPERATURE = 1e3


def fit_temperature(log_probs, labels) -> float:
    """The temperature that minimizes the negative log-likelihood of `softmax(log_probs / T)`.

    The objective is convex in `1 / T`, so the root of its slope is the minimum. A model with many
    members is scaled once, on the log of its mean prediction: then one number serves every kind of
    model, the scaled probabilities keep the model's ranking of classes, and knowledge uncertainty
    is untouched.

    Args:
        log_probs: `[examples, classes]` logits or log-probabilities; for members the log of their
            mean probability.
        labels: `[examples]` integer classes.

    Returns:
        The temperature, in `[MIN_TEMPERATURE, MAX_TEMPERATURE]`. It is 1 where all logits of each
        example are equal, since then no temperature changes anything.
    """
    from scipy import optimize  # Here: predicting with a loaded model needs no SciPy.

    log_probs = checks.as_matrix(log_probs, "log_probs")
    labels = checks.as_labels(labels, *log_probs.shape)
    # Relative to the label: the slope is then a mean of plain expectations, without cancellation.
    margins = log_probs - log_probs[np.arange(labels.size), labels][:, np.newaxis]
    if not np.ptp(margins, axis=-1).any():
        return 1.0

    def slope(log_temperature):
        """Derivative of the mean negative log-likelihood in `1 / T`."""
        probs = np.exp(scale_log_probs(margins, float(np.exp(log_temperature))))
        return float(np.mean(np.sum(probs * margins, axis=-1)))

    low, high = np.log(MIN_TEMPERATURE), np.log(MAX_TEMPERATURE)
    if slope(high) >= 0.0:
        return MAX_TEMPERATURE
    if slope(low) <= 0.0:
        return MIN_TEMPERATURE
    return float(np.exp(optimize.brentq(slope, low, high, xtol=1e-13)))


def scale_log_probs(log_probs, temperature):
    """Log-probabilities of `softmax(log_probs / temperature)`."""
    log_probs = checks.as_matrix(log_probs, "log_probs")
    if not (np.isscalar(temperature) and np.isfinite(temperature) and temperature > 0.0):
        raise ValueError(f"temperature must be a positive number; received {temperature!r}.")
    scaled = log_probs / temperature
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    return scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True))
