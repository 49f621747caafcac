"""One hidden layer, against NumPy."""

import numpy as np
import pytest

from s2d_tf import backbones, layers

VECTORS = np.random.default_rng(0).normal(size=[6, 5]).astype(np.float32)


def test_it_is_a_matrix_product_and_a_relu():
    model = backbones.dense((5,), width=4, seed=1)
    kernel, bias = (weight.numpy() for weight in model.weights)
    assert [weight.path for weight in model.weights] == ["hidden/kernel", "hidden/bias"]
    np.testing.assert_allclose(model(VECTORS), np.maximum(VECTORS @ kernel + bias, 0), atol=1e-6)


def test_the_seed_fixes_weights_and_masks():
    same, other = backbones.dense((5,), 4, seed=1), backbones.dense((5,), 4, seed=2)
    expected = backbones.dense((5,), 4, seed=1).get_weights()[0]
    np.testing.assert_array_equal(same.get_weights()[0], expected)
    assert np.abs(other.get_weights()[0] - expected).min() > 0
    model = backbones.dense((5,), 64, dropout=0.5, seed=1)
    with layers.monte_carlo_member(0):
        dropped = model(VECTORS)
    assert 0.2 < np.mean((dropped == 0).numpy() & (model(VECTORS) > 0).numpy()) < 0.4


@pytest.mark.parametrize("shape", [(8, 8, 3), (), (0,)])
def test_other_shapes_are_rejected(shape):
    with pytest.raises(ValueError, match="input_shape: expected"):
        backbones.dense(shape)
