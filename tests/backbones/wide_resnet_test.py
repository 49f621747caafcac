"""Wide ResNet: published parameter counts, structure, and a NumPy forward pass."""

import keras
import numpy as np
import pytest
from scipy import signal

from s2d_tf import backbones

WEIGHTED_LAYERS = [
    "stem",
    "block1_unit1_bn1",
    "block1_unit1_conv1",
    "block1_unit1_bn2",
    "block1_unit1_shortcut",
    "block1_unit1_conv2",
    "block2_unit1_bn1",
    "block2_unit1_conv1",
    "block2_unit1_bn2",
    "block2_unit1_shortcut",
    "block2_unit1_conv2",
    "block3_unit1_bn1",
    "block3_unit1_conv1",
    "block3_unit1_bn2",
    "block3_unit1_shortcut",
    "block3_unit1_conv2",
    "final_bn",
]


def _parents(model):
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


def _numpy_wide_resnet(image, weights, depth, stem_stride):
    def conv(x, name, stride=1):
        return _conv(x, weights[f"{name}/kernel"], stride)

    def norm_relu(x, name):
        scale = weights[f"{name}/gamma"] / np.sqrt(weights[f"{name}/moving_variance"] + 1e-5)
        x = (x - weights[f"{name}/moving_mean"]) * scale + weights[f"{name}/beta"]
        return np.maximum(x, 0.0)

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
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
    weights = {weight.path: weight.numpy().astype("float64") for weight in model.weights}
    images = rng.normal(size=(2, *shape))
    expected = [_numpy_wide_resnet(image, weights, depth, stem_stride) for image in images]
    received = model(images.astype("float32"), training=False)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-4)


def test_layer_names_are_a_file_format():
    model = backbones.wide_resnet((8, 8, 1), depth=10, width=2)
    assert [layer.name for layer in model.layers if layer.weights] == WEIGHTED_LAYERS
    assert model.get_layer("block1_unit1_conv1").kernel.path == "block1_unit1_conv1/kernel"


def test_shortcut_sees_the_shared_activation_where_the_shape_changes():
    parents = _parents(backbones.wide_resnet((8, 8, 1), depth=16, width=2))
    for block in (1, 2, 3):
        changed, kept = f"block{block}_unit1", f"block{block}_unit2"
        assert parents[f"{changed}_shortcut"] == [f"{changed}_relu1"]
        assert f"{changed}_shortcut" in parents[f"{changed}_add"]
        assert f"{kept}_shortcut" not in parents
        assert parents[f"{kept}_add"] == [f"{changed}_add", f"{kept}_conv2"]
        assert parents[f"{kept}_bn1"] == [f"{changed}_add"]


def test_width_one_keeps_the_identity_in_the_first_block():
    parents = _parents(backbones.wide_resnet((8, 8, 1), depth=10, width=1))
    assert parents["block1_unit1_add"] == ["stem", "block1_unit1_conv2"]
    assert "block2_unit1_shortcut" in parents


def test_dropout_is_between_the_two_convolutions_of_each_unit():
    model = backbones.wide_resnet((8, 8, 1), depth=16, width=1, dropout=0.3)
    parents = _parents(model)
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
    for layer in model.layers:
        if isinstance(layer, keras.layers.Conv2D):
            kernel = layer.kernel.numpy()
            standard = kernel / np.sqrt(2.0 / np.prod(kernel.shape[:3]))
            # Five standard errors; the tail beyond 2.5 (1.24%) is what truncation would remove.
            assert abs(standard.mean()) < 5 / np.sqrt(kernel.size), layer.name
            assert abs(standard.std() - 1.0) < 5 / np.sqrt(2 * kernel.size), layer.name
            if kernel.size > 10_000:
                assert 0.009 < np.mean(np.abs(standard) > 2.5) < 0.016, layer.name
            assert not layer.use_bias


def test_bad_width():
    with pytest.raises(ValueError, match=r"width: expected a positive integer, received 0\."):
        backbones.wide_resnet(width=0)
