"""The linear heads against NumPy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import layers
from tests import contracts

RNG = np.random.default_rng(0)


def built(units=3, num_heads=1, width=4, **kwargs):
    head = layers.Head(units, num_heads, **kwargs)
    head.build((None, 1, 1, width))
    head.bias.assign(np.random.default_rng(1).normal(size=head.bias.shape))
    return head


@pytest.mark.parametrize("num_heads", [1, 2, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_equals_numpy(num_heads, shared):
    head = built(num_heads=num_heads)
    features = RNG.normal(size=[5, 1 if shared else num_heads, 2, 4]).astype(np.float32)
    seen = np.broadcast_to(features, [5, num_heads, 2, 4])
    expected = np.einsum("bhsd,hdk->bhsk", seen, head.kernel) + head.bias.numpy()[:, None]
    logits = head(features)
    assert logits.shape == (5, num_heads, 2, 3) == tuple(head.compute_output_shape(logits.shape))
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-6)


def test_starts_uniform_in_the_fan_in_bound_with_zero_bias():
    head = layers.Head(200, seed=0)
    head.build((None, 1, 1, 64))
    kernel = head.kernel.numpy()
    assert np.abs(kernel).max() <= 1 / 8
    assert abs(kernel.std() - 1 / 8 / 3**0.5) < 0.001
    assert not head.bias.numpy().any()


def test_contract():
    arguments = {"units": 3, "num_heads": 2, "seed": 4}
    features = RNG.normal(size=[5, 1, 2, 4]).astype(np.float32)
    contracts.run_layer_test(layers.Head, arguments, features, (None, 2, 2, 3), 2, policies=())
    start = {"kernel_initializer": "zeros", "bias_initializer": keras.initializers.Constant(-1.0)}
    twin = contracts.run_serialization_test(layers.Head(3, 2, **start))
    twin.build((None, 1, 1, 4))
    np.testing.assert_array_equal(twin.bias, np.full([2, 3], -1.0))
    np.testing.assert_array_equal(twin.kernel, np.zeros([2, 4, 3]))


def test_stack_inputs():
    images = RNG.integers(0, 256, [5, 8, 8, 3]).astype(np.float32)
    assert layers.stack_inputs(images, 1) is images
    tiled = layers.stack_inputs(images, 2)
    np.testing.assert_array_equal(tiled, np.concatenate([images, images], axis=-1))
    pairs = np.stack([images, images[::-1]], axis=1)
    np.testing.assert_array_equal(
        layers.stack_inputs(tf.constant(pairs), 2), np.concatenate([images, images[::-1]], axis=-1)
    )
    with pytest.raises(ValueError, match="one image for each of 3 heads") as error:
        layers.stack_inputs(tf.constant(pairs), 3)
    assert "\n" not in str(error.value)
