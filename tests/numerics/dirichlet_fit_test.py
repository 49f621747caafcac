"""The Dirichlet fit against mpmath and a general optimiser, and where no maximum exists."""

import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from s2d_tf.numerics import (
    FIT_METHODS,
    MAX_TOTAL_CONCENTRATION,
    fit_dirichlet,
    fit_dirichlet_with_info,
    merge_dirichlets,
)

TOTALS = (1e-2, 1.0, 1e2, 1e4, 1e6)


def log_softmax(logits):
    return logits - scipy.special.logsumexp(logits, axis=-1, keepdims=True)


def dirichlet_log_samples(rng, concentration, num_samples):
    """Log of Dirichlet samples, without underflow: Gamma(a) = Gamma(a + 1) * U^(1/a)."""
    shape = (num_samples, *concentration.shape)
    log_gamma = np.log(rng.gamma(concentration + 1.0, size=shape))
    log_gamma += np.log(rng.random(shape)) / concentration
    return np.moveaxis(log_softmax(log_gamma), 0, -2)


def s2d_like_log_probs(rng, batch, num_samples, num_classes):
    """A dense layer's logits under noise: from nearly identical to widely different samples."""
    logits = rng.normal(size=(batch, 1, num_classes)) * rng.uniform(1, 6, size=(batch, 1, 1))
    noise = rng.normal(size=(batch, num_samples, num_classes))
    return log_softmax(logits + noise * np.exp(rng.uniform(-7, 1.5, size=(batch, 1, 1))))


def newton_reference(log_probs, start):
    """Newton's method on the likelihood in 30 digits, from `start`; log_probs `[M, K]`."""
    with mpmath.workdps(30):
        rows = [[mpmath.mpf(float(value)) for value in row] for row in log_probs]
        norms = [mpmath.log(sum(map(mpmath.exp, row))) for row in rows]
        rows = [[v - norm for v in row] for row, norm in zip(rows, norms, strict=True)]
        target = [mpmath.fsum(column) / len(rows) for column in zip(*rows, strict=True)]
        a = [mpmath.mpf(float(value)) for value in start]
        for _ in range(3):
            total = mpmath.fsum(a)
            psi_total, trigamma_total = mpmath.digamma(total), mpmath.polygamma(1, total)
            weights = [1 / mpmath.polygamma(1, value) for value in a]
            gaps = [t + psi_total - mpmath.digamma(v) for t, v in zip(target, a, strict=True)]
            change = mpmath.fsum(w * g for w, g in zip(weights, gaps, strict=True))
            change /= 1 - trigamma_total * mpmath.fsum(weights)
            a = [
                value + weight * (gap + trigamma_total * change)
                for value, weight, gap in zip(a, weights, gaps, strict=True)
            ]
        assert abs(change / total) < 1e-9
        return np.array([float(value) for value in a])


class TestNewton:
    @pytest.mark.parametrize(
        ("num_classes", "dtype"),
        [(2, np.float32), (2, np.float64), (10, np.float32), (10, np.float64), (100, np.float32)],
    )
    def test_matches_mpmath(self, num_classes, dtype):
        rng = np.random.default_rng(num_classes)
        totals = TOTALS if num_classes < 100 else TOTALS[::2]
        mean = rng.dirichlet(np.full(num_classes, 2.0), size=len(totals))
        concentration = mean * np.array(totals)[:, np.newaxis]
        log_probs = dirichlet_log_samples(rng, concentration, 5).astype(dtype)
        result = fit_dirichlet(log_probs)
        assert result.dtype == dtype
        for row, fitted in zip(log_probs, result.numpy(), strict=True):
            if fitted.sum() < 0.9 * MAX_TOTAL_CONCENTRATION:
                np.testing.assert_allclose(fitted, newton_reference(row, fitted), rtol=1e-5)

    @pytest.mark.parametrize("total", TOTALS)
    def test_is_stationary_at_1000_classes(self, total):
        rng = np.random.default_rng(1)
        log_probs = dirichlet_log_samples(rng, rng.dirichlet(np.full(1000, 2.0)) * total, 5)
        fitted = fit_dirichlet(log_probs).numpy()
        gap = log_probs.mean(axis=0) + scipy.special.psi(fitted.sum()) - scipy.special.psi(fitted)
        relative_step = gap / (fitted * scipy.special.polygamma(1, fitted))
        np.testing.assert_allclose(relative_step, np.zeros(1000), atol=1e-10)

    def test_expectations_match_where_the_total_is_capped(self):
        log_probs = log_softmax(np.array([[[0.0, -30.0, -2e4, 1.0]]]))
        fitted = fit_dirichlet(log_probs).numpy()[0]
        np.testing.assert_allclose(fitted.sum(), MAX_TOTAL_CONCENTRATION, rtol=1e-6)
        expected_log_probs = scipy.special.psi(fitted) - scipy.special.psi(fitted.sum())
        np.testing.assert_allclose(expected_log_probs, log_probs[0, 0], rtol=1e-6, atol=1e-6)


class TestMeanPrecision:
    @pytest.mark.parametrize("num_classes", [2, 10, 100])
    def test_total_is_stationary_in_mpmath(self, num_classes):
        rng = np.random.default_rng(num_classes)
        mean = rng.dirichlet(np.full(num_classes, 2.0), size=len(TOTALS))
        log_probs = dirichlet_log_samples(rng, mean * np.array(TOTALS)[:, np.newaxis], 5)
        fitted = fit_dirichlet(log_probs, method="mean_precision").numpy()
        for row, total in zip(log_probs, fitted.sum(axis=-1), strict=True):
            if total > 0.9 * MAX_TOTAL_CONCENTRATION:
                continue
            with mpmath.workdps(50):
                probs = [mpmath.fsum(map(mpmath.exp, c)) / len(row) for c in row.T]
                norm = mpmath.fsum(probs)
                probs = [p / norm for p in probs]
                mean_log = [mpmath.fsum(c) / len(row) for c in row.T]

                def slope(log_total, probs=probs, mean_log=mean_log):
                    s = mpmath.exp(log_total)
                    return mpmath.digamma(s) + mpmath.fsum(
                        p * (t - mpmath.digamma(p * s))
                        for p, t in zip(probs, mean_log, strict=True)
                    )

                start = mpmath.log(float(total))
                expected = mpmath.exp(mpmath.findroot(slope, (start - 0.01, start + 0.01)))
            np.testing.assert_allclose(total, float(expected), rtol=1e-5)


@pytest.mark.parametrize("method", FIT_METHODS)
class TestBothMethods:
    @pytest.mark.parametrize("num_samples", [1, 5])
    def test_identical_samples_give_the_mean_at_the_largest_total(self, num_samples, method):
        row = log_softmax(np.random.default_rng(0).normal(size=(3, 1, 10)) * 2)
        log_probs = np.repeat(row, num_samples, axis=-2)
        fitted = fit_dirichlet(log_probs, method=method).numpy()
        expected = np.exp(row[:, 0]) * MAX_TOTAL_CONCENTRATION
        np.testing.assert_allclose(fitted, expected, rtol=1e-4)

    def test_extremes_are_finite_in_every_mode(self, method):
        one_hot = np.where(np.eye(10)[:5] > 0, 1e4, -1e4)[np.newaxis]
        with np.errstate(divide="ignore"):
            zeros = np.log(np.eye(10)[[3, 3, 3, 1, 3]])[np.newaxis]
        log_probs = np.concatenate(
            [
                log_softmax(one_hot),  # every sample is sure of another class
                log_softmax(np.repeat(one_hot[:, :1], 5, axis=1)),  # all of the same class
                zeros,  # ln 0
                np.full([1, 5, 10], -np.log(10.0)),
                log_softmax(np.random.default_rng(0).uniform(-1e4, 1e4, size=(1, 5, 10))),
            ]
        ).astype(np.float32)
        eager = fit_dirichlet(log_probs, method=method).numpy()
        assert np.all(np.isfinite(eager))
        assert np.all(eager > 0.0)
        assert np.all(eager.sum(axis=-1) <= MAX_TOTAL_CONCENTRATION * 1.001)
        for jit_compile in (False, True):
            compiled = tf.function(fit_dirichlet, jit_compile=jit_compile)(log_probs, method=method)
            np.testing.assert_allclose(compiled, eager, rtol=1e-4)

    def test_a_row_does_not_depend_on_the_others(self, method):
        rng = np.random.default_rng(5)
        easy = log_softmax(rng.normal(size=(16, 1, 10)) + rng.normal(size=(16, 5, 10)) * 1e-2)
        mixed = easy.copy()
        mixed[0] = log_softmax(rng.normal(size=(5, 10)) * 4)
        easy_fit = fit_dirichlet_with_info(easy, method=method)
        mixed_fit = fit_dirichlet_with_info(mixed, method=method)
        assert mixed_fit.num_iterations > easy_fit.num_iterations
        np.testing.assert_array_equal(mixed_fit.concentration[1:], easy_fit.concentration[1:])

    def test_leading_axes_and_unknown_shapes_without_a_gradient(self, method):
        log_probs = s2d_like_log_probs(np.random.default_rng(6), 6, 5, 4)
        variable = tf.Variable(log_probs)
        with tf.GradientTape() as tape:
            flat = fit_dirichlet(variable, method=method)
        assert tape.gradient(flat, variable) is None
        nested = fit_dirichlet(log_probs.reshape(2, 3, 5, 4), method=method)
        np.testing.assert_allclose(nested.numpy().reshape(6, 4), flat, rtol=1e-12)
        single = fit_dirichlet(log_probs[0], method=method)
        np.testing.assert_allclose(single, flat[0], rtol=1e-12)
        signature = [tf.TensorSpec([None, None, None], tf.float64)]
        dynamic = tf.function(lambda x: fit_dirichlet(x, method=method), input_signature=signature)
        np.testing.assert_allclose(dynamic(log_probs), flat, rtol=1e-12)

    @settings(derandomize=True, max_examples=10, deadline=None)
    @given(seed=st.integers(0, 10_000), base=st.floats(-3, 8.5), noise=st.floats(-12, 8.5))
    def test_converges_on_anything(self, method, seed, base, noise):
        rng = np.random.default_rng(seed)
        logits = rng.normal(size=(8, 1, 6)) * np.exp(base)
        logits = logits + rng.standard_t(2, size=(8, 3, 6)) * np.exp(noise)
        log_probs = log_softmax(np.clip(logits, -1e4, 1e4))
        fit = fit_dirichlet_with_info(log_probs, method=method)
        total = fit.concentration.numpy().sum(axis=-1)
        assert np.all(fit.residual.numpy() <= 1e-4 + 1e-13 * total)
        assert fit.num_iterations < 15
        # What is left after a last step of 1e-4 is less than float32 resolves.
        exact = fit_dirichlet_with_info(log_probs, method=method, tolerance=1e-9)
        error = np.abs(fit.concentration.numpy() / exact.concentration.numpy() - 1).max(axis=-1)
        assert np.all(error <= 5e-8 + 1e-12 * total)


def test_bad_input_is_refused():
    for shape, options, message in (
        ([2, 5, 3], {"method": "em"}, r"one of \['newton', 'mean_precision'\], received 'em'"),
        ([3], {}, r"shape \[..., samples, classes\], received \(3,\)"),
        ([2, 0, 3], {}, "at least one of samples"),
        ([2, 5, 1], {}, "at least 2 classes"),
        ([2, 5, 3], {"max_iterations": 0}, "max_iterations: expected at least 1, received 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fit_dirichlet(np.zeros(shape), **options)


@pytest.mark.parametrize("num_classes", [2, 10, 100])
@pytest.mark.parametrize("total", TOTALS)
def test_merged_dirichlets_have_the_members_expected_log_probabilities(total, num_classes):
    """The condition of the least mean divergence, in units of its own slope, in 40 digits."""
    rng = np.random.default_rng(num_classes)
    members = total * rng.dirichlet(np.full(num_classes, 0.5), 4) + 1e-8
    members *= np.exp(rng.normal(size=[4, 1]))
    found = merge_dirichlets(members).numpy()
    assert found.shape == (num_classes,)

    def expected_log_probs(row):
        values = [mpmath.mpf(float(value)) for value in row]
        psi_total = mpmath.digamma(mpmath.fsum(values))
        return [mpmath.digamma(value) - psi_total for value in values]

    with mpmath.workdps(40):
        wanted = [mpmath.fsum(c) / 4 for c in zip(*map(expected_log_probs, members), strict=True)]
        gaps = zip(found, expected_log_probs(found), wanted, strict=True)
        steps = [(own - t) / (float(a) * mpmath.psi(1, float(a))) for a, own, t in gaps]
    assert max(abs(float(step)) for step in steps) < 1e-6


def test_merging_survives_extreme_members_and_passes_no_gradient():
    ends = np.float32([np.exp(-20), 1e-3, 1.0, 1e3, np.exp(20)])
    members = tf.constant(np.stack(np.meshgrid(ends, ends, ends), axis=-1).reshape(-1, 1, 3))
    members = tf.concat([members, tf.reverse(members, [0])], axis=1)
    with tf.GradientTape() as tape:
        tape.watch(members)
        merged = merge_dirichlets(members)
    assert np.isfinite(merged).all()
    assert np.all(merged > 0)
    assert tape.gradient(merged, members) is None
