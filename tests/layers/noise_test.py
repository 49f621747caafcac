"""Noise and dropout: contracts, statistics, replicas, and Monte Carlo masks at prediction."""

import functools
import itertools
import threading

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import layers
from tests import contracts

VARIANTS = {
    "multiplicative": (layers.MultiplicativeGaussianNoise, {"stddev": 0.3}),
    "uniform": (layers.MultiplicativeGaussianNoise, {"stddev": (0.1, 0.5)}),
    "additive": (layers.AdditiveGaussianNoise, {"stddev": 0.3}),
    "bernoulli": (layers.BernoulliNoise, {"rate": 0.3}),
}


@pytest.fixture(params=sorted(VARIANTS))
def variant(request):
    kind, arguments = VARIANTS[request.param]
    return functools.partial(kind, **arguments)


def features(rows=6, width=5):
    return np.random.default_rng(1).normal(2.0, 1.0, [rows, width]).astype(np.float32)


def test_contract(variant):
    arguments = {**variant.keywords, "num_samples": 3, "seed": 7}
    contracts.run_layer_test(variant.func, arguments, features(), (None, 3, 5), rtol=0)


def test_each_step_draws_anew_and_a_seed_repeats_the_run(variant):
    first, second = variant(seed=5), variant(seed=5)
    run = [first(features()).numpy() for _ in range(3)]
    np.testing.assert_array_equal(run, [second(features()).numpy() for _ in range(3)])
    assert not np.array_equal(run[0], run[1])
    assert not np.array_equal(run[1], run[2])
    assert not np.array_equal(run[0], variant(seed=6)(features()))
    # The generator's state is a variable, for checkpoints.
    state = [v.numpy() for v in first.variables]
    following = first(features()).numpy()
    for variable, value in zip(first.variables, state, strict=True):
        variable.assign(value)
    np.testing.assert_array_equal(first(features()), following)


def correlation(a, b):
    return np.corrcoef(np.ravel(a), np.ravel(b))[0, 1]


def test_gaussian_moments_and_independence_of_rows_samples_and_features():
    layer = layers.MultiplicativeGaussianNoise(0.3, num_samples=4, seed=0)
    draws = layer(np.ones([500, 50], np.float32)).numpy() - 1
    size = draws.size  # 100,000: a standard error of 0.001 in the mean, of 0.0007 in the deviation
    assert abs(draws.mean()) < 5 * 0.3 / size**0.5
    assert abs(draws.std() - 0.3) < 5 * 0.3 / (2 * size) ** 0.5
    standard = draws / 0.3
    assert abs((standard**3).mean()) < 5 * (6 / size) ** 0.5
    assert abs((standard**4).mean() - 3) < 5 * (24 / size) ** 0.5
    limit = 5 / (size / 4) ** 0.5
    assert abs(correlation(draws[1:], draws[:-1])) < limit
    assert abs(correlation(draws[:, 1:], draws[:, :-1])) < limit
    assert abs(correlation(draws[..., 1:], draws[..., :-1])) < limit


def test_random_deviation_is_uniform_and_shared_by_features_only():
    layer = layers.MultiplicativeGaussianNoise((0.1, 0.5), num_samples=2, seed=0)
    noise = layer(np.ones([1000, 400], np.float32)).numpy() - 1
    deviation = noise.std(axis=-1)  # of each row and sample, known to about 3.5%
    assert deviation.min() > 0.1 * 0.85
    assert deviation.max() < 0.5 * 1.15
    assert abs(deviation.mean() - 0.3) < 5 * 0.4 / 12**0.5 / deviation.size**0.5
    assert abs(deviation.std() - 0.4 / 12**0.5) < 0.01
    # drawn apart for each row and each sample ...
    assert abs(correlation(deviation[:, 0], deviation[:, 1])) < 0.15
    assert abs(correlation(deviation[1:], deviation[:-1])) < 0.15
    # ... and one for all features: squares are correlated across features, values are not.
    # Var(s^2) / (3 E s^4 - E[s^2]^2) for s uniform on (0.1, 0.5):
    moment = {n: (0.5 ** (n + 1) - 0.1 ** (n + 1)) / (0.4 * (n + 1)) for n in (2, 4)}
    expected = (moment[4] - moment[2] ** 2) / (3 * moment[4] - moment[2] ** 2)
    assert abs(correlation(noise[..., :200] ** 2, noise[..., 200:] ** 2) - expected) < 0.02
    assert abs(correlation(noise[..., :200], noise[..., 200:])) < 0.01


def test_bernoulli_drops_at_the_rate_and_keeps_the_mean():
    layer = layers.BernoulliNoise(0.25, num_samples=4, seed=0)
    noisy = layer(np.full([1000, 50], 3.0, np.float32)).numpy()
    np.testing.assert_allclose(np.unique(noisy), [0, 4.0], rtol=1e-6)
    dropped = noisy == 0
    assert abs(dropped.mean() - 0.25) < 5 * (0.25 * 0.75 / dropped.size) ** 0.5
    assert abs(correlation(dropped[:, 0], dropped[:, 1])) < 0.03


def test_only_multiplicative_noise_scales_with_the_feature():
    x = np.tile(np.float32([0.0, 100.0]), [5000, 1])
    for kind, spread in (
        (layers.AdditiveGaussianNoise, [0.3, 0.3]),
        (layers.MultiplicativeGaussianNoise, [0.0, 30.0]),
    ):
        noise = kind(0.3, num_samples=10, seed=0)(x).numpy() - x[:, None]
        np.testing.assert_allclose(noise.std(axis=(0, 1)), spread, rtol=0.02)


def test_zero_noise_copies():
    expected = np.repeat(features()[:, None], 2, axis=1)
    for kind, _ in VARIANTS.values():
        np.testing.assert_array_equal(kind(0.0, 2, seed=0)(features()), expected)


def test_two_replicas_draw_what_one_would(variant, two_replicas):
    x = features(8)
    alone = variant(seed=11)
    expected = [alone(x).numpy() for _ in range(2)]
    with two_replicas.scope():
        shared = variant(seed=11)
        shared.build(x.shape)

    @tf.function
    def step(part):
        return two_replicas.run(lambda rows: shared(rows), args=(part,))

    parts = two_replicas.experimental_distribute_values_from_function(
        lambda context: tf.constant(np.split(x, 2)[context.replica_id_in_sync_group])
    )
    for one in expected:
        both = two_replicas.experimental_local_results(step(parts))
        assert not np.array_equal(both[0], both[1])
        np.testing.assert_array_equal(np.concatenate(both), one)


def test_bad_arguments_are_rejected():
    for stddev in (-0.1, (0.5, 0.1), (-0.1, 0.2), float("nan")):
        with pytest.raises(ValueError, match="stddev: expected"):
            layers.AdditiveGaussianNoise(stddev)
    for kind, rate in itertools.product(
        (layers.BernoulliNoise, layers.Dropout), (-0.1, 1.0, float("nan"))
    ):
        with pytest.raises(ValueError, match=r"rate: expected a number in \[0, 1\)"):
            kind(rate)


ONES = np.ones([64, 6, 6, 10], np.float32)


def masks(layer, member, x=ONES):
    with layers.monte_carlo_member(member):
        return layer(x).numpy()


def test_inference_is_identity_and_training_drops_at_the_rate():
    layer = layers.Dropout(0.4, seed=0)
    np.testing.assert_array_equal(layer(ONES), ONES)
    noisy = layer(ONES, training=True).numpy()
    np.testing.assert_allclose(np.unique(noisy), [0, 1 / 0.6], rtol=1e-6)
    dropped = noisy == 0
    assert abs(dropped.mean() - 0.4) < 5 * (0.24 / dropped.size) ** 0.5
    assert not np.array_equal(noisy[0], noisy[1]), "each row has a mask of its own in training"
    assert not np.array_equal(noisy, layer(ONES, training=True)), "each step draws anew"


def test_a_monte_carlo_mask_is_one_draw_for_all_images_and_differs_by_member_and_layer():
    layer, other = layers.Dropout(0.4, seed=0), layers.Dropout(0.4, seed=1)
    drawn = masks(layer, 0)
    np.testing.assert_array_equal(drawn, np.tile(drawn[:1], [64, 1, 1, 1]))
    np.testing.assert_array_equal(masks(layer, 0, ONES[:3]), drawn[:3])
    assert 0.25 < (drawn[0] == 0).mean() < 0.55
    np.testing.assert_allclose(drawn[drawn != 0], 1 / 0.6, rtol=1e-6)
    layer(ONES, training=True)  # training moves the generator, not the members' masks
    np.testing.assert_array_equal(masks(layer, 0), drawn)
    for one, two in itertools.combinations([drawn, masks(layer, 1), masks(other, 0)], 2):
        assert abs(correlation(one[0], two[0])) < 0.25


def test_monte_carlo_ends_with_its_context_and_does_not_reach_other_threads():
    layer, seen = layers.Dropout(0.4, seed=0), []
    with pytest.raises(KeyError), layers.monte_carlo_member(0):
        raise KeyError
    np.testing.assert_array_equal(layer(ONES), ONES)
    with layers.monte_carlo_member(0):
        outer = layer(ONES)
        with layers.monte_carlo_member(1):
            assert not np.array_equal(outer, layer(ONES))
        np.testing.assert_array_equal(layer(ONES), outer)
        thread = threading.Thread(target=lambda: seen.append(layer(ONES).numpy()))
        thread.start()
        thread.join()
    np.testing.assert_array_equal(seen[0], ONES)


def test_contract_of_dropout():
    arguments = {"rate": 0.5, "seed": 3}
    contracts.run_layer_test(layers.Dropout, arguments, ONES, (None, 6, 6, 10), training=True)
    layer = layers.Dropout(0.4)  # the config keeps the seed that it draws
    twin = contracts.run_serialization_test(layer)
    np.testing.assert_array_equal(masks(twin, 0), masks(layer, 0))


def test_replicas_draw_apart(two_replicas):
    with two_replicas.scope():
        layer = layers.Dropout(0.4, seed=0)

    @tf.function
    def step():
        return two_replicas.run(lambda: layer(tf.constant(ONES), training=True))

    first, second = two_replicas.experimental_local_results(step())
    assert abs(correlation(first, second)) < 0.05


def test_a_mask_of_free_size_is_the_same_along_it():
    layer = layers.Dropout(0.5, seed=3)

    @tf.function(input_signature=[tf.TensorSpec([None, None, 64])])
    def drop(x):
        with layers.monte_carlo_member(1):
            return layer(x)

    short, long = drop(tf.ones([2, 3, 64])), drop(tf.ones([1, 5, 64]))
    assert 0 < np.count_nonzero(short[0, 0]) < 64
    np.testing.assert_array_equal(short, np.broadcast_to(short[:1, :1], [2, 3, 64]))
    np.testing.assert_array_equal(long, np.broadcast_to(short[:1, :1], [1, 5, 64]))
