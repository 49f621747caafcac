"""Seeds and argument checks shared by the backbones."""

import numpy as np
import pytest

from s2d_tf.backbones import blocks


def test_layer_seeds_are_distinct_over_layers_and_neighbouring_networks():
    names = [f"block{b}_unit{u}_conv{c}" for b in (1, 2, 3) for u in range(1, 17) for c in (1, 2)]
    seeds = {blocks.layer_seed(seed, name) for seed in range(20) for name in names}
    assert len(seeds) == 20 * len(names)
    assert all(0 <= seed < 2**31 for seed in seeds)


def test_layer_seeds_are_fixed_for_ever():
    # A published run names only its seed; these values must survive any change of the code.
    assert blocks.layer_seed(0, "stem") == 1957122231
    assert blocks.layer_seed(np.int64(0), "stem") == blocks.layer_seed(0, "stem")
    assert blocks.layer_seed(None, "stem") is None


@pytest.mark.parametrize("value", [0, -3, 1.5, "2", None, (1,)])
def test_positive_integers(value):
    with pytest.raises(ValueError, match=r"`width` must be a positive integer\. Received: width="):
        blocks.check_positive_integer("width", value)
    assert blocks.check_positive_integer("width", np.int64(3)) == 3


@pytest.mark.parametrize("depth", [1, 4, 9, 11, 27, 101])
def test_depth(depth):
    with pytest.raises(ValueError, match=rf"6n \+ 4 .*Received: depth={depth}$"):
        blocks.check_depth(depth)
    assert [blocks.check_depth(good) for good in (10, 16, 28, 100)] == [10, 16, 28, 100]


@pytest.mark.parametrize(
    "shape", [(32, 32), (1, 32, 32, 3), (32, 32, 0), (None, 32, 3), 32, None, (8.0, 8, 1), "8x8"]
)
def test_input_shape(shape):
    with pytest.raises(ValueError, match=r"`input_shape` must be \(height, width, channels\)"):
        blocks.check_input_shape(shape)
    assert blocks.check_input_shape([8, np.int32(8), 1]) == (8, 8, 1)


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), None, "high"])
def test_dropout(rate):
    with pytest.raises(ValueError, match=r"`dropout` must be in \[0, 1\)\. Received: dropout="):
        blocks.check_dropout(rate)
    assert blocks.check_dropout(0) == 0.0
    assert blocks.check_dropout(0.3) == 0.3


@pytest.mark.parametrize("seed", [1.5, "7", (1, 2)])
def test_seed(seed):
    with pytest.raises(ValueError, match=r"`seed` must be an integer or None\. Received: seed="):
        blocks.check_seed(seed)
    assert blocks.check_seed(None) is None
    assert blocks.check_seed(7) == 7
