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
    with pytest.raises(ValueError, match=r"width: expected a positive integer, received "):
        blocks.check_positive_integer("width", value)
    assert blocks.check_positive_integer("width", np.int64(3)) == 3


@pytest.mark.parametrize("depth", [1, 4, 9, 11, 27, 101])
def test_depth(depth):
    with pytest.raises(ValueError, match=rf"depth: expected 6n \+ 4 .* received {depth}\."):
        blocks.check_depth(depth)
    assert [blocks.check_depth(good) for good in (10, 16, 28, 100)] == [10, 16, 28, 100]


@pytest.mark.parametrize(
    "shape", [(32, 32), (1, 32, 32, 3), (32, 32, 0), (None, 32, 3), 32, None, (8.0, 8, 1), "8x8"]
)
def test_input_shape(shape):
    with pytest.raises(ValueError, match=r"input_shape: expected \(height, width, channels\)"):
        blocks.check_input_shape(shape)
    assert blocks.check_input_shape([8, np.int32(8), 1]) == (8, 8, 1)


@pytest.mark.parametrize("shape", [(None, None), (None, 0, 3), (None, None, None), (8, "8", 1)])
def test_free_sizes(shape):
    with pytest.raises(ValueError, match="input_shape: expected"):
        blocks.check_input_shape(shape, free_size=True)
    assert blocks.check_input_shape((None, 8, 1), free_size=True) == (None, 8, 1)


@pytest.mark.parametrize("value", [0, -1.0, float("inf"), float("nan"), None, "wide"])
def test_positive_numbers(value):
    def positive(number):
        return 0 < number < float("inf")

    with pytest.raises(ValueError, match="width: expected a number above 0, received"):
        blocks.check_number("width", value, "above 0", positive)
    assert blocks.check_number("width", 1, "above 0", positive) == 1.0


@pytest.mark.parametrize("rate", [-0.1, 1.0, 1.5, float("nan"), None, "high"])
def test_dropout(rate):
    with pytest.raises(ValueError, match=r"dropout: expected a number in \[0, 1\), received "):
        blocks.check_dropout(rate)
    assert blocks.check_dropout(0) == 0.0
    assert blocks.check_dropout(0.3) == 0.3


@pytest.mark.parametrize("seed", [1.5, "7", (1, 2)])
def test_seed(seed):
    with pytest.raises(ValueError, match=r"seed: expected an integer or None, received "):
        blocks.check_seed(seed)
    assert blocks.check_seed(None) is None
    assert blocks.check_seed(7) == 7
