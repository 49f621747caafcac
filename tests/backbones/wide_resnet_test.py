"""Wide ResNet: published parameter counts, structure, and a NumPy forward pass."""

import numpy as np
import pytest

from s2d_tf import backbones
from tests.backbones.networks import (
    check_equals_numpy,
    check_normal_kernels,
    layers_in_numpy,
    parents_of,
)

WEIGHTED_LAYERS = [
    "stem",
    *(
        f"block{block}_unit1_{layer}"
        for block in (1, 2, 3)
        for layer in ("bn1", "conv1", "bn2", "shortcut", "conv2")
    ),
    "final_bn",
]


def _numpy_wide_resnet(image, weights, depth, stem_stride):
    conv, norm_relu = layers_in_numpy(weights)
    x = conv(image, "stem", stem_stride)
    for block in (1, 2, 3):
        for unit in range(1, (depth - 4) // 6 + 1):
            scope = f"block{block}_unit{unit}"
            stride = 2 if block > 1 and unit == 1 else 1
            activated = norm_relu(x, f"{scope}_bn1")
            residual = norm_relu(conv(activated, f"{scope}_conv1", stride), f"{scope}_bn2")
            residual = conv(residual, f"{scope}_conv2")
            if f"{scope}_shortcut/kernel" in weights:
                x = conv(activated, f"{scope}_shortcut", stride)
            x = x + residual
    return norm_relu(x, "final_bn").mean(axis=(0, 1))


def test_published_parameter_count():
    model = backbones.wide_resnet()
    assert model.output_shape == (None, 640)
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert trainable + (640 + 1) * 100 == 36_536_884


@pytest.mark.parametrize(
    ("shape", "depth", "width", "stem_stride"),
    [((8, 8, 1), 10, 1, 1), ((8, 8, 2), 10, 2, 2), ((7, 9, 1), 16, 1, 1)],
)
def test_equals_numpy(shape, depth, width, stem_stride):
    model = backbones.wide_resnet(shape, depth, width, stem_stride=stem_stride, dropout=0.3, seed=0)
    check_equals_numpy(model, _numpy_wide_resnet, depth, stem_stride)


def test_layer_names_are_a_file_format():
    model = backbones.wide_resnet((8, 8, 1), depth=10, width=2)
    assert [layer.name for layer in model.layers if layer.weights] == WEIGHTED_LAYERS
    assert model.get_layer("block1_unit1_conv1").kernel.path == "block1_unit1_conv1/kernel"


def test_dropout_is_between_the_two_convolutions_of_each_unit():
    model = backbones.wide_resnet((8, 8, 1), depth=16, width=1, dropout=0.3)
    parents = parents_of(model)
    names = [layer.name for layer in model.layers if "dropout" in layer.name]
    scopes = [f"block{block}_unit{unit}" for block in (1, 2, 3) for unit in (1, 2)]
    assert names == [f"{scope}_dropout" for scope in scopes]
    for scope in scopes:
        assert parents[f"{scope}_dropout"] == [f"{scope}_relu2"]
        assert parents[f"{scope}_conv2"] == [f"{scope}_dropout"]
        assert model.get_layer(f"{scope}_dropout").rate == 0.3
    plain = backbones.wide_resnet((8, 8, 1), depth=16, width=1)
    assert not [layer.name for layer in plain.layers if "dropout" in layer.name]


def test_kernels_are_normal_with_variance_two_over_fan_in():
    model = backbones.wide_resnet((8, 8, 3), depth=10, width=4, seed=1)
    check_normal_kernels(model, lambda height, width, channels, filters: height * width * channels)
