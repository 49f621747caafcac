"""The normal over log-concentrations: closed forms in numpy and scipy, Monte Carlo, the floor."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.numerics import MIN_SCALE, fit_normal, normal_kl_divergence


def random_normals(seed, shape):
    rng = np.random.default_rng(seed)
    return rng.normal(size=shape) * 5, np.exp(rng.normal(size=shape))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kl_matches_the_papers_equation(dtype):
    (p_loc, p_scale), (q_loc, q_scale) = random_normals(0, (4, 10)), random_normals(1, (4, 10))
    arguments = [value.astype(dtype) for value in (p_loc, p_scale, q_loc, q_scale)]
    result = normal_kl_divergence(*arguments)
    assert result.dtype == dtype
    p_loc, p_scale, q_loc, q_scale = (value.astype(np.float64) for value in arguments)
    terms = np.log(q_scale / p_scale) - 0.5
    terms += (p_scale**2 + (q_loc - p_loc) ** 2) / (2 * q_scale**2)
    np.testing.assert_allclose(result, terms.sum(axis=-1), rtol=1e-6)


def test_kl_of_equals_is_zero_and_extremes_are_finite():
    loc, scale = random_normals(2, (3, 10))
    assert np.all(normal_kl_divergence(loc, scale, loc, scale).numpy() == 0.0)
    variables = [tf.Variable([[1e4, -1e4]]), tf.Variable([[MIN_SCALE, 10.0]])]
    with tf.GradientTape() as tape:
        value = normal_kl_divergence([[-1e4, 1e4]], [[MIN_SCALE, MIN_SCALE]], *variables)
    assert np.all(np.isfinite(value))
    assert all(np.all(np.isfinite(gradient)) for gradient in tape.gradient(value, variables))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_fit_is_mean_and_biased_deviation(dtype):
    values = (np.random.default_rng(3).normal(size=(2, 5, 7)) * 3 + 100).astype(dtype)
    loc, scale = fit_normal(values)
    assert loc.dtype == scale.dtype == dtype
    expected = values.astype(np.float64)
    np.testing.assert_allclose(loc, expected.mean(axis=-2), rtol=1e-6)
    np.testing.assert_allclose(scale, expected.std(axis=-2, ddof=0), rtol=1e-6)


def test_fit_has_a_floor_and_a_finite_gradient_at_it():
    for values in (np.ones([2, 1, 4]), np.ones([2, 5, 4]), np.full([2, 5, 4], 1e4)):
        variable = tf.Variable(values, dtype=tf.float32)
        with tf.GradientTape() as tape:
            loc, scale = fit_normal(variable)
            target = tf.reduce_sum(loc + scale)
        np.testing.assert_allclose(loc, values[:, 0])
        np.testing.assert_allclose(scale, np.full([2, 4], MIN_SCALE))
        assert np.all(np.isfinite(tape.gradient(target, variable)))


def test_eager_graph_and_xla_agree():
    (p_loc, p_scale), (q_loc, q_scale) = random_normals(7, (4, 10)), random_normals(8, (4, 10))

    def everything(p_loc, p_scale, q_loc, q_scale):
        samples = tf.stack([p_loc, q_loc], axis=-2)
        divergence = normal_kl_divergence(p_loc, p_scale, q_loc, q_scale)
        return (*fit_normal(samples), divergence)

    eager = everything(p_loc, p_scale, q_loc, q_scale)
    for jit_compile in (False, True):
        compiled = tf.function(everything, jit_compile=jit_compile)(p_loc, p_scale, q_loc, q_scale)
        for one, other in zip(eager, compiled, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)


def test_bad_shapes_are_refused():
    with pytest.raises(ValueError, match=r"shape \[..., members, classes\], received \(4,\)"):
        fit_normal(np.zeros([4]))
