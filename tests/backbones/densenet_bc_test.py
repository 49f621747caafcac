"""DenseNet-BC: published parameter counts, structure, and a NumPy forward pass."""

import keras
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
        name
        for block in (1, 2, 3)
        for name in (
            *(f"block{block}_unit1_{layer}" for layer in ("bn1", "conv1", "bn2", "conv2")),
            *(f"transition{block}_{layer}" for layer in ("bn", "conv") if block < 3),
        )
    ),
    "final_bn",
]


def _pool(image):
    """Mean over 2x2 pixels; at an odd edge over those that exist."""
    height, width = (-(-size // 2) for size in image.shape[:2])
    rows = [
        [image[2 * i : 2 * i + 2, 2 * j : 2 * j + 2].mean(axis=(0, 1)) for j in range(width)]
        for i in range(height)
    ]
    return np.array(rows)


def _numpy_densenet_bc(image, weights, depth, stem_stride):
    conv, norm_relu = layers_in_numpy(weights)
    x = conv(image, "stem", stem_stride)
    for block in (1, 2, 3):
        for unit in range(1, (depth - 4) // 6 + 1):
            scope = f"block{block}_unit{unit}"
            new = conv(norm_relu(x, f"{scope}_bn1"), f"{scope}_conv1")
            new = conv(norm_relu(new, f"{scope}_bn2"), f"{scope}_conv2")
            x = np.concatenate([x, new], axis=-1)
        if block < 3:
            scope = f"transition{block}"
            x = _pool(conv(norm_relu(x, f"{scope}_bn"), f"{scope}_conv"))
    return norm_relu(x, "final_bn").mean(axis=(0, 1))


def test_published_parameter_counts():
    model = backbones.densenet_bc()
    assert model.output_shape == (None, 342)
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    head = (342 + 1) * 100
    assert trainable + head == 800_032
    # Two images in the channels and a second head: the MIMO network of the paper's cost column.
    assert trainable + 9 * 3 * 24 + 2 * head == 834_980
    assert model.get_layer("transition1_conv").kernel.shape == (1, 1, 216, 108)
    assert model.get_layer("transition2_conv").kernel.shape == (1, 1, 300, 150)
    assert model.get_layer("stem").kernel.shape == (3, 3, 3, 24)


@pytest.mark.parametrize(
    ("shape", "depth", "growth_rate", "stem_stride"),
    [((8, 8, 1), 10, 3, 1), ((8, 8, 2), 16, 2, 2), ((7, 9, 1), 10, 3, 1)],
)
def test_equals_numpy(shape, depth, growth_rate, stem_stride):
    model = backbones.densenet_bc(
        shape, depth, growth_rate, stem_stride=stem_stride, dropout=0.2, seed=0
    )
    check_equals_numpy(model, _numpy_densenet_bc, depth, stem_stride)


def test_layer_names_are_a_file_format():
    model = backbones.densenet_bc((8, 8, 1), depth=10, growth_rate=2)
    assert [layer.name for layer in model.layers if layer.weights] == WEIGHTED_LAYERS
    assert model.get_layer("transition1_conv").kernel.path == "transition1_conv/kernel"


def test_dropout_follows_every_convolution_but_the_stem():
    model = backbones.densenet_bc((8, 8, 1), depth=16, growth_rate=2, dropout=0.2)
    parents = parents_of(model)
    dropped = {parents[layer.name][0] for layer in model.layers if "dropout" in layer.name}
    convolutions = {layer.name for layer in model.layers if isinstance(layer, keras.layers.Conv2D)}
    assert dropped == convolutions - {"stem"}
    # Nothing reads a convolution past its dropout.
    readers = {name for name, sources in parents.items() if dropped & set(sources)}
    assert readers == {layer.name for layer in model.layers if "dropout" in layer.name}
    assert parents["block1_unit2_concat"] == ["block1_unit1_dropout2", "block1_unit2_dropout2"]
    assert parents["transition1_pool"] == ["transition1_dropout"]
    plain = backbones.densenet_bc((8, 8, 1), depth=16, growth_rate=2)
    assert not [layer.name for layer in plain.layers if "dropout" in layer.name]


def test_kernels_are_normal_with_variance_two_over_fan_out():
    model = backbones.densenet_bc((8, 8, 3), depth=10, growth_rate=24, seed=1)
    check_normal_kernels(model, lambda height, width, channels, filters: height * width * filters)


@pytest.mark.parametrize(("reduction", "kept"), [(1.0, 6), (0.5, 3), (0.4, 2), (0.01, 1)])
def test_reduction_rounds_down_and_keeps_a_channel(reduction, kept):
    model = backbones.densenet_bc((8, 8, 1), depth=10, growth_rate=2, reduction=reduction)
    assert model.get_layer("transition1_conv").filters == kept
