"""Digamma, trigamma and psi(x + 1) - ln x against mpmath at 40 digits."""

import mpmath
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.numerics import digamma, digamma_minus_log, trigamma

# From the smallest clipped concentration to the largest total of 1000 clipped ones.
GRID = np.exp(np.linspace(-20.0, 20.0 + np.log(1000.0), 200))
ROOT = 1.4616321449683623


def reference(function, x):
    with mpmath.workdps(40):
        return np.array([float(function(mpmath.mpf(float(value)))) for value in x])


def mixed_error(actual, expected):
    return np.max(np.abs(actual - expected) / np.maximum(1.0, np.abs(expected)))


def relative_error(actual, expected):
    return np.max(np.abs(actual / expected - 1.0))


def psi_plus_one_minus_log(x):
    return mpmath.digamma(x + 1) - mpmath.log(x)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 5e-7), (np.float64, 2e-15)])
class TestAccuracy:
    def test_digamma(self, dtype, tolerance):
        x = np.concatenate([GRID, np.linspace(1.0, 12.0, 100), [ROOT]]).astype(dtype)
        result = digamma(x)
        assert result.dtype == dtype
        assert mixed_error(result.numpy(), reference(mpmath.digamma, x)) < tolerance

    def test_trigamma(self, dtype, tolerance):
        x = np.concatenate([GRID, np.linspace(1.0, 12.0, 100)]).astype(dtype)
        result = trigamma(x)
        assert result.dtype == dtype
        expected = reference(lambda value: mpmath.polygamma(1, value), x)
        assert relative_error(result.numpy().astype(np.float64), expected) < tolerance

    def test_digamma_minus_log(self, dtype, tolerance):
        x = np.concatenate([GRID, np.linspace(1.0, 12.0, 100)]).astype(dtype)
        result = digamma_minus_log(x)
        assert result.dtype == dtype
        actual, expected = result.numpy(), reference(psi_plus_one_minus_log, x)
        assert mixed_error(actual, expected) < tolerance
        # No cancellation: relative to the value itself, which falls to 1e-12.
        is_large = x >= 4.0
        assert relative_error(actual[is_large].astype(np.float64), expected[is_large]) < tolerance

    def test_gradient_of_digamma_is_trigamma(self, dtype, tolerance):
        x = tf.constant(GRID, dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            value = digamma(x)
        gradient = tape.gradient(value, x).numpy().astype(np.float64)
        assert relative_error(gradient, trigamma(x).numpy()) < 4 * tolerance

    def test_eager_graph_and_xla_agree(self, dtype, tolerance):
        x = tf.constant(GRID, dtype)
        for function in (digamma, trigamma, digamma_minus_log):
            eager = function(x).numpy()
            for jit_compile in (False, True):
                compiled = tf.function(function, jit_compile=jit_compile)(x).numpy()
                assert mixed_error(compiled, eager) < tolerance


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ends_of_the_range(dtype):
    # 1 / max itself is subnormal, and flushed to zero.
    large = np.finfo(dtype).max / 32
    x = np.array([0.0, large, np.inf], dtype)
    np.testing.assert_allclose(digamma(x), [-np.inf, np.log(large), np.inf], rtol=1e-6)
    np.testing.assert_allclose(trigamma(x) * large, [np.inf, 1.0, 0.0], rtol=1e-6)
    np.testing.assert_allclose(digamma_minus_log(x) * large, [np.inf, 0.5, 0.0], rtol=1e-6)
