"""Temperature scaling: one number, fitted on held-out examples, that softens predictions."""

import numpy as np

from s2d_tf.metrics import checks

# Where the best temperature does not exist (every label is the largest logit, or predictions are
# worse than chance) the answer is the end of this range.
MIN_TEMPERATURE = 1e-3
MAX_TEMPERATURE = 1e3
MAX_ITERATIONS = 200


def fit_temperature(log_probs, labels):
    """The temperature that minimises the negative log-likelihood of `softmax(log_probs / T)`.

    The objective is convex in `1 / T`; Newton steps inside a shrinking bracket find the root of its
    slope to machine precision. A model with many members is scaled once, on the log of its mean
    prediction: then one number serves every kind of model, the scaled probabilities keep the
    model's ranking of classes, and knowledge uncertainty is untouched.

    Args:
        log_probs: `[examples, classes]` logits or log-probabilities; for members the log of their
            mean probability.
        labels: `[examples]` integer classes.

    Returns:
        The temperature, in `[MIN_TEMPERATURE, MAX_TEMPERATURE]`. It is 1 where all logits of each
        example are equal, since then no temperature changes anything.
    """
    log_probs = checks.as_matrix(log_probs, "log_probs")
    labels = checks.as_labels(labels, *log_probs.shape)
    # Relative to the label: the slope is then a mean of plain expectations, without cancellation.
    margins = log_probs - log_probs[np.arange(labels.size), labels][:, np.newaxis]
    if not np.ptp(margins, axis=-1).any():
        return 1.0

    low, high = 1.0 / MAX_TEMPERATURE, 1.0 / MIN_TEMPERATURE
    if _slope_and_curvature(margins, low)[0] >= 0.0:
        return MAX_TEMPERATURE
    if _slope_and_curvature(margins, high)[0] <= 0.0:
        return MIN_TEMPERATURE
    inverse = 1.0
    for _ in range(MAX_ITERATIONS):
        slope, curvature = _slope_and_curvature(margins, inverse)
        if slope == 0.0:
            break
        low, high = (inverse, high) if slope < 0.0 else (low, inverse)
        with np.errstate(divide="ignore", over="ignore"):
            step = inverse - slope / curvature
        # The geometric mean halves the bracket on the scale on which temperatures differ.
        proposal = step if low < step < high else np.sqrt(low * high)
        if abs(proposal - inverse) <= 2.0 * np.finfo(np.float64).eps * inverse:
            break
        inverse = proposal
    return float(1.0 / inverse)


def scale_log_probs(log_probs, temperature):
    """Log-probabilities of `softmax(log_probs / temperature)`."""
    log_probs = checks.as_matrix(log_probs, "log_probs")
    if not (np.isscalar(temperature) and np.isfinite(temperature) and temperature > 0.0):
        raise ValueError(f"temperature must be a positive number; received {temperature!r}.")
    scaled = log_probs / temperature
    scaled = scaled - scaled.max(axis=-1, keepdims=True)
    return scaled - np.log(np.exp(scaled).sum(axis=-1, keepdims=True))


def _slope_and_curvature(margins, inverse_temperature):
    """First and second derivative of the mean negative log-likelihood in `1 / T`."""
    scaled = inverse_temperature * margins
    weights = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    mean = np.sum(weights * margins, axis=-1)
    variance = np.sum(weights * (margins - mean[:, np.newaxis]) ** 2, axis=-1)
    return float(np.mean(mean)), float(np.mean(variance))
