"""DenseNet-BC and Wide ResNet: parameter counts, structure, start, and a NumPy forward pass.

A float64 oracle of DenseNet-BC is in batch_norm_test.py.
"""

import keras
import numpy as np
import pytest
from scipy import signal

from s2d_tf import backbones


def parents_of(model):
    """Layer name -> names of the layers that feed it."""
    return {
        layer["name"]: [
            tensor["config"]["keras_history"][0]
            for argument in layer["inbound_nodes"][0]["args"]
            for tensor in (argument if isinstance(argument, list) else [argument])
        ]
        for layer in model.get_config()["layers"]
        if layer["inbound_nodes"]
    }


def _conv(image, kernel, stride=1):
    """Cross-correlation of one image [H, W, C] with [k, k, C, F], zeros around, like torch."""
    pad = kernel.shape[0] // 2
    image = np.pad(image, [(pad, pad), (pad, pad), (0, 0)])
    maps = [
        sum(
            signal.correlate2d(image[..., c], kernel[..., c, f], mode="valid")
            for c in range(kernel.shape[2])
        )
        for f in range(kernel.shape[3])
    ]
    return np.stack(maps, axis=-1)[::stride, ::stride]


def layers_in_numpy(weights):
    """The convolution and the batch norm with ReLU of weights by path."""

    def conv(x, name, stride=1):
        return _conv(x, weights[f"{name}/kernel"], stride)

    def norm_relu(x, name):
        scale = weights[f"{name}/gamma"] / np.sqrt(weights[f"{name}/moving_variance"] + 1e-5)
        x = (x - weights[f"{name}/moving_mean"]) * scale + weights[f"{name}/beta"]
        return np.maximum(x, 0.0)

    return conv, norm_relu


def check_equals_numpy(model, oracle, depth, stem_stride):
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
    weights = {weight.path: weight.numpy().astype("float64") for weight in model.weights}
    images = rng.normal(size=(2, *model.input_shape[1:]))
    expected = [oracle(image, weights, depth, stem_stride) for image in images]
    received = model(images.astype("float32"), training=False)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-4)


DENSENET_LAYERS = [
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


@pytest.mark.parametrize(("reduction", "kept"), [(1.0, 6), (0.5, 3), (0.4, 2), (0.01, 1)])
def test_reduction_rounds_down_and_keeps_a_channel(reduction, kept):
    model = backbones.densenet_bc((8, 8, 1), depth=10, growth_rate=2, reduction=reduction)
    assert model.get_layer("transition1_conv").filters == kept


WIDE_LAYERS = [
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


@pytest.mark.parametrize(
    ("shape", "depth", "width", "stem_stride"),
    [((8, 8, 1), 10, 1, 1), ((8, 8, 2), 10, 2, 2), ((7, 9, 1), 16, 1, 1)],
)
def test_wide_resnet_equals_numpy(shape, depth, width, stem_stride):
    model = backbones.wide_resnet(shape, depth, width, stem_stride=stem_stride, dropout=0.3, seed=0)
    check_equals_numpy(model, _numpy_wide_resnet, depth, stem_stride)


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


def test_published_parameter_counts():
    """Also of two images in the channels and a second head, the paper's MIMO network."""
    for model, features, with_head in (
        (backbones.densenet_bc(), 342, 800_032),
        (backbones.wide_resnet(), 640, 36_536_884),
    ):
        assert model.output_shape == (None, features)
        trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
        assert trainable + (features + 1) * 100 == with_head
    mimo = backbones.densenet_bc((32, 32, 6))
    trainable = sum(int(np.prod(weight.shape)) for weight in mimo.trainable_weights)
    assert trainable + 2 * (342 + 1) * 100 == 834_980


def test_layer_names_are_a_file_format():
    for model, names in (
        (backbones.densenet_bc((8, 8, 1), depth=10, growth_rate=2), DENSENET_LAYERS),
        (backbones.wide_resnet((8, 8, 1), depth=10, width=2), WIDE_LAYERS),
    ):
        assert [layer.name for layer in model.layers if layer.weights] == names
        assert model.get_layer(names[2]).kernel.path == f"{names[2]}/kernel"


@pytest.mark.parametrize(
    ("model", "fan"),
    [
        (lambda: backbones.densenet_bc((8, 8, 3), depth=10, growth_rate=24, seed=1), "out"),
        (lambda: backbones.wide_resnet((8, 8, 3), depth=10, width=4, seed=1), "in"),
    ],
    ids=["densenet_bc", "wide_resnet"],
)
def test_kernels_are_normal_with_variance_two_over_fan(model, fan):
    for layer in model().layers:
        if isinstance(layer, keras.layers.Conv2D):
            kernel = layer.kernel.numpy()
            height, width, channels, filters = kernel.shape
            size = height * width * (filters if fan == "out" else channels)
            standard = kernel / np.sqrt(2.0 / size)
            # Five standard errors; the tail beyond 2.5 (1.24%) is what truncation would remove.
            assert abs(standard.mean()) < 5 / np.sqrt(kernel.size), layer.name
            assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * kernel.size), layer.name
            if kernel.size > 10_000:
                assert 0.009 < np.mean(np.abs(standard) > 2.5) < 0.016, layer.name
            assert not layer.use_bias
