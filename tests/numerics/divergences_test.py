"""Divergences, likelihood and the normal fit against mpmath, SciPy and closed forms."""

import mpmath
import numpy as np
import pytest
import scipy.special
import scipy.stats
import tensorflow as tf

from s2d_tf.numerics import (
    MIN_SCALE,
    dirichlet_fisher_distance,
    dirichlet_kl_divergence,
    dirichlet_negative_log_likelihood,
    fit_normal,
    normal_kl_divergence,
)
from tests import oracles

TOTALS = (1e-2, 1.0, 1e2, 1e4, 1e6)
CLASSES = (2, 10, 100, 1000)


def random_concentration(rng, num_classes, total):
    return rng.dirichlet(np.full(num_classes, 2.0)) * total


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("num_classes", CLASSES)
def test_kl_matches_mpmath(num_classes, dtype):
    rng = np.random.default_rng(num_classes)
    totals = [(total, total) for total in TOTALS] + [(1e6, 1e-2), (1e-2, 1e6), (1e4, 30.0)]
    if num_classes == 1000:
        totals = [(1e-2, 1e-2), (1e6, 1e6), (1e4, 30.0)]
    p = np.stack([random_concentration(rng, num_classes, total) for total, _ in totals])
    q = np.stack([random_concentration(rng, num_classes, total) for _, total in totals])
    q[0] = p[0] * 1.01  # close to each other, where terms cancel
    p, q = p.astype(dtype), q.astype(dtype)
    result = dirichlet_kl_divergence(p, q)
    assert result.dtype == dtype
    expected = [oracles.dirichlet_kl(*row) for row in zip(p, q, strict=True)]
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)


def test_kl_broadcasts_and_agrees_in_every_mode():
    rng = np.random.default_rng(4)
    p = random_concentration(rng, 5, 7.0).astype(np.float32)
    q = np.stack([random_concentration(rng, 5, total) for total in TOTALS]).astype(np.float32)
    eager = dirichlet_kl_divergence(p, q)
    assert eager.shape == (len(TOTALS),)
    for jit_compile in (False, True):
        compiled = tf.function(dirichlet_kl_divergence, jit_compile=jit_compile)(p, q)
        np.testing.assert_allclose(compiled, eager, rtol=1e-6)


@pytest.mark.parametrize("total", TOTALS)
def test_negative_log_likelihood_matches_scipy(total):
    rng = np.random.default_rng(5)
    concentration = np.stack([random_concentration(rng, 10, total) for _ in range(3)])
    logits = rng.normal(size=(3, 4, 10))
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    expected = [
        -np.mean([scipy.stats.dirichlet(a).logpdf(sample) for sample in samples])
        for a, samples in zip(concentration, probs, strict=True)
    ]
    result = dirichlet_negative_log_likelihood(np.log(probs), concentration)
    np.testing.assert_allclose(result, expected, rtol=1e-10, atol=1e-8)
    # float32 log-probabilities do not sum to one exactly; the total must not multiply that.
    float32_logits = logits.astype(np.float32) - 3e-7
    result = dirichlet_negative_log_likelihood(float32_logits, concentration.astype(np.float32))
    assert result.dtype == tf.float32
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


def fisher_reference(a, d):
    with mpmath.workdps(40):
        a, d = ([mpmath.mpf(float(value)) for value in row] for row in (a, d))
        squares = mpmath.fsum((x * y) ** 2 * mpmath.psi(1, x) for x, y in zip(a, d, strict=True))
        mean = mpmath.fsum(x * y for x, y in zip(a, d, strict=True))
        return float((squares - mpmath.psi(1, mpmath.fsum(a)) * mean**2) / 2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("total", TOTALS)
def test_fisher_distance_matches_mpmath(total, dtype):
    rng = np.random.default_rng(0)
    a = np.stack([random_concentration(rng, 10, total) for _ in range(3)]).astype(dtype)
    d = rng.normal(0, 2, a.shape).astype(dtype)
    d[2] = 1.0  # of the total alone, where the terms cancel
    found = dirichlet_fisher_distance(a, d)
    assert found.dtype == dtype
    expected = [fisher_reference(*row) for row in zip(a, d, strict=True)]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_fisher_distance_passes_no_gradient_to_its_dirichlet():
    a, d = tf.constant([1.0, 2.0]), tf.constant([0.5, -0.5])
    with tf.GradientTape() as tape:
        tape.watch([a, d])
        value = dirichlet_fisher_distance(a, d)
    slope, other = tape.gradient(value, [d, a])
    assert other is None
    assert np.all(slope != 0)


def random_normals(shape=(4, 10)):
    rng = np.random.default_rng(0)
    return [
        draw for _ in "pq" for draw in (rng.normal(0, 5, shape), np.exp(rng.normal(size=shape)))
    ]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_kl_is_the_papers_equation_in_every_mode(dtype):
    arguments = [value.astype(dtype) for value in random_normals()]
    result = normal_kl_divergence(*arguments)
    assert result.dtype == dtype
    p_loc, p_scale, q_loc, q_scale = (value.astype(np.float64) for value in arguments)
    terms = np.log(q_scale / p_scale) - 0.5
    terms += (p_scale**2 + (q_loc - p_loc) ** 2) / (2 * q_scale**2)
    np.testing.assert_allclose(result, terms.sum(axis=-1), rtol=1e-6)
    for jit_compile in (False, True):
        compiled = tf.function(normal_kl_divergence, jit_compile=jit_compile)(*arguments)
        np.testing.assert_allclose(compiled, result, rtol=1e-6)


def test_normal_kl_of_equals_is_zero():
    loc, scale, *_ = random_normals()
    assert np.all(normal_kl_divergence(loc, scale, loc, scale).numpy() == 0.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_fit_is_mean_and_biased_deviation(dtype):
    values = (np.random.default_rng(3).normal(size=(2, 5, 7)) * 3 + 100).astype(dtype)
    loc, scale = fit_normal(values)
    assert loc.dtype == scale.dtype == dtype
    expected = values.astype(np.float64)
    np.testing.assert_allclose(loc, expected.mean(axis=-2), rtol=1e-6)
    np.testing.assert_allclose(scale, expected.std(axis=-2, ddof=0), rtol=1e-6)


def test_normal_fit_has_a_floor_and_a_finite_gradient_at_it():
    for values in (np.ones([2, 1, 4]), np.ones([2, 5, 4]), np.full([2, 5, 4], 1e4)):
        variable = tf.Variable(values, dtype=tf.float32)
        with tf.GradientTape() as tape:
            loc, scale = fit_normal(variable)
            target = tf.reduce_sum(loc + scale)
        np.testing.assert_allclose(loc, values[:, 0])
        np.testing.assert_allclose(scale, np.full([2, 4], MIN_SCALE))
        assert np.all(np.isfinite(tape.gradient(target, variable)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: dirichlet_kl_divergence([1.0], [1.0]), "p: expected at least 2 classes"),
        (lambda: dirichlet_kl_divergence([1.0] * 2, [1.0] * 3), "the same number of classes"),
        (
            lambda: dirichlet_negative_log_likelihood([0.0, 1.0], [1.0, 2.0]),
            r"log_probs: expected the shape \[..., samples, classes\]",
        ),
        (lambda: fit_normal(np.zeros([4])), r"shape \[..., members, classes\], received \(4,\)"),
    ],
)
def test_bad_shapes_are_rejected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
