"""Dropout in training and as Monte Carlo masks at prediction."""

import threading

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import layers
from tests import contracts

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


def test_rate_zero_is_identity_everywhere():
    layer = layers.Dropout(0.0, seed=0)
    np.testing.assert_array_equal(layer(ONES, training=True), ONES)
    np.testing.assert_array_equal(masks(layer, 0), ONES)


def test_monte_carlo_mask_is_one_draw_for_all_images():
    layer = layers.Dropout(0.4, seed=0)
    drawn = masks(layer, 0)
    np.testing.assert_array_equal(drawn, np.tile(drawn[:1], [64, 1, 1, 1]))
    np.testing.assert_array_equal(masks(layer, 0, ONES[:3]), drawn[:3])
    assert 0.25 < (drawn[0] == 0).mean() < 0.55
    np.testing.assert_allclose(drawn[drawn != 0], 1 / 0.6, rtol=1e-6)


def test_monte_carlo_masks_are_deterministic_and_differ_by_member_and_layer():
    layer, other = layers.Dropout(0.4, seed=0), layers.Dropout(0.4, seed=1)
    np.testing.assert_array_equal(masks(layer, 2), masks(layer, 2))
    layer(ONES, training=True)  # training moves the generator, not the members' masks
    np.testing.assert_array_equal(masks(layer, 2), masks(layers.Dropout(0.4, seed=0), 2))
    drawn = [masks(layer, 0)[0], masks(layer, 1)[0], masks(other, 0)[0]]
    for i in range(3):
        for j in range(i):
            assert abs(np.corrcoef(drawn[i].ravel(), drawn[j].ravel())[0, 1]) < 0.25


def test_monte_carlo_ends_with_its_context_also_on_error():
    layer = layers.Dropout(0.4, seed=0)
    with pytest.raises(KeyError), layers.monte_carlo_member(0):
        raise KeyError
    np.testing.assert_array_equal(layer(ONES), ONES)
    with layers.monte_carlo_member(0):
        outer = layer(ONES)
        with layers.monte_carlo_member(1):
            inner = layer(ONES)
        np.testing.assert_array_equal(layer(ONES), outer)
    assert not np.array_equal(outer, inner)


def test_monte_carlo_does_not_leak_into_other_threads():
    layer, seen = layers.Dropout(0.4, seed=0), []
    with layers.monte_carlo_member(0):
        thread = threading.Thread(target=lambda: seen.append(layer(ONES).numpy()))
        thread.start()
        thread.join()
    np.testing.assert_array_equal(seen[0], ONES)


def test_config_keeps_a_drawn_seed():
    layer = layers.Dropout(0.4)
    assert isinstance(layer.seed, int)
    twin = contracts.run_serialization_test(layer)
    np.testing.assert_array_equal(masks(twin, 0), masks(layer, 0))


def test_contract():
    arguments = {"rate": 0.5, "seed": 3}
    contracts.run_layer_test(layers.Dropout, arguments, ONES, (None, 6, 6, 10), training=True)


def test_replicas_draw_apart(two_replicas):
    with two_replicas.scope():
        layer = layers.Dropout(0.4, seed=0)

    @tf.function
    def step():
        return two_replicas.run(lambda: layer(tf.constant(ONES), training=True))

    first, second = two_replicas.experimental_local_results(step())
    assert abs(np.corrcoef(np.ravel(first), np.ravel(second))[0, 1]) < 0.05


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
