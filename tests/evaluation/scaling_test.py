"""Temperature scaling on held-out examples, and on halves of the test split."""

import numpy as np
import pytest
import scipy.optimize
import scipy.special

from s2d_tf.evaluation import Scored, run_evaluation


def overconfident(num, seed, factor=2.5):
    """Labels drawn from a softmax, and logits that are `factor` times too large."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=(num, 5)) * 2
    probs = scipy.special.softmax(logits, axis=-1)
    labels = np.array([rng.choice(5, p=p) for p in probs])
    return Scored(scipy.special.log_softmax(factor * logits, axis=-1), {}, labels)


def nll(log_probs, labels, temperature):
    scaled = scipy.special.log_softmax(log_probs / temperature, axis=-1)
    return -scaled[np.arange(len(labels)), labels].mean()


def best_temperature(scored):
    options = {"bounds": (0.1, 20), "method": "bounded", "options": {"xatol": 1e-9}}
    return scipy.optimize.minimize_scalar(
        lambda t: nll(scored.log_probs, scored.labels, t), **options
    ).x


def test_the_temperature_is_that_of_the_held_out_examples():
    test, held_out = overconfident(800, 0), overconfident(500, 1)
    found = run_evaluation.scaled_metrics("digits", test, held_out)
    expected = best_temperature(held_out)
    assert found["digits/temperature"] == pytest.approx(expected, rel=1e-5)
    scaled = nll(test.log_probs, test.labels, expected)
    assert found["digits/scaled_nll"] == pytest.approx(scaled, abs=1e-7)
    assert found["digits/scaled_nll"] < nll(test.log_probs, test.labels, 1.0)


def test_without_them_each_half_is_scaled_by_the_other():
    test = overconfident(801, 0)
    found = run_evaluation.scaled_metrics("digits", test)
    order = np.random.default_rng(run_evaluation.HALVES_SEED).permutation(801)
    total, temperatures = 0.0, []
    for own, other in ((order[::2], order[1::2]), (order[1::2], order[::2])):
        part = Scored(test.log_probs[other], {}, test.labels[other])
        temperatures.append(best_temperature(part))
        total += nll(test.log_probs[own], test.labels[own], temperatures[-1]) * len(own)
    assert found["digits/scaled_nll"] == pytest.approx(total / 801, abs=1e-7)
    assert found["digits/temperature"] == pytest.approx(np.sqrt(np.prod(temperatures)), rel=1e-5)
    assert temperatures[0] != pytest.approx(temperatures[1], rel=1e-3)
