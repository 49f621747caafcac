"""Temperature scaling against a scalar optimiser in high precision and its own invariances."""

import mpmath
import numpy as np
import pytest
from scipy.special import log_softmax

from s2d_tf import metrics


def overconfident(true_temperature, num_examples=400, num_classes=6, seed=0):
    """Labels drawn from the softmax of logits that are then sharpened by `true_temperature`."""
    rng = np.random.default_rng(seed)
    logits = 2.0 * rng.normal(size=(num_examples, num_classes))
    probs = np.exp(log_softmax(logits, axis=-1))
    labels = np.array([rng.choice(num_classes, p=row) for row in probs])
    return true_temperature * logits, labels


@pytest.mark.parametrize("true_temperature", [0.1, 0.7, 1.0, 3.0, 50.0])
def test_the_slope_vanishes_in_high_precision(true_temperature):
    logits, labels = overconfident(true_temperature, num_examples=60)
    temperature = metrics.fit_temperature(logits, labels)
    with mpmath.workdps(40):

        def slope(inverse):
            total = mpmath.mpf(0)
            for row, label in zip(logits, labels, strict=True):
                row = [mpmath.mpf(z) for z in row]
                weights = [mpmath.exp(inverse * z) for z in row]
                mean = mpmath.fdot(weights, row) / mpmath.fsum(weights)
                total += mean - row[label]
            return total

        exact = 1 / mpmath.findroot(slope, 1 / mpmath.mpf(temperature))
        assert abs(temperature / exact - 1) < 1e-12
    assert temperature == pytest.approx(true_temperature, rel=0.4)


def test_rescaled_logits_rescale_the_temperature_and_the_start_does_not_matter():
    logits, labels = overconfident(1.0)
    temperature = metrics.fit_temperature(logits, labels)
    for factor in (1e-2, 0.3, 17.0, 300.0):
        scaled = metrics.fit_temperature(factor * logits + 5.0, labels)
        assert scaled == pytest.approx(factor * temperature, rel=1e-10)


def test_it_is_the_best_of_a_grid_and_keeps_the_accuracy():
    logits, labels = overconfident(4.0)
    temperature = metrics.fit_temperature(logits, labels)

    def nll(t):
        return metrics.negative_log_likelihood_from_log_probs(
            metrics.scale_log_probs(logits, t), labels
        )

    assert nll(temperature) <= min(nll(t) for t in np.geomspace(0.1, 100.0, 301))
    assert nll(temperature) < nll(1.0)
    scaled = metrics.scale_log_probs(logits, temperature)
    np.testing.assert_array_equal(scaled.argmax(axis=-1), logits.argmax(axis=-1))
    np.testing.assert_allclose(scaled, log_softmax(logits / temperature, axis=-1), atol=1e-12)


def test_degenerate_sets():
    logits = np.array([[1.0, 0.0], [3.0, 0.0], [0.0, 2.0]])
    assert metrics.fit_temperature(logits, [0, 0, 1]) == 1e-3  # All right: the sharper the better.
    assert metrics.fit_temperature(logits, [1, 1, 0]) == 1e3  # All wrong: the flatter the better.
    assert metrics.fit_temperature(np.full((3, 4), 2.5), [0, 1, 2]) == 1.0
    assert metrics.fit_temperature([[2.0, 0.0]], [0]) == 1e-3


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_extreme_logits_stay_finite(scale):
    rng = np.random.default_rng(5)
    logits = scale * rng.normal(size=(200, 10))
    temperature = metrics.fit_temperature(logits, rng.integers(0, 10, 200))
    assert 1e-3 <= temperature <= 1e3


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="log_probs: expected finite numbers, received -inf"):
        metrics.fit_temperature([[0.0, -np.inf]], [0])
    with pytest.raises(ValueError, match=r"labels: expected classes in \[0, 2\)"):
        metrics.fit_temperature([[0.0, 1.0]], [2])
    for temperature in (0.0, -1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match="temperature: expected a positive number"):
            metrics.scale_log_probs([[0.0, 1.0]], temperature)
