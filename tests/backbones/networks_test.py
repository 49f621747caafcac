"""The three networks: parameter counts, layer names, structure, start, and NumPy forward passes.

A float64 oracle of DenseNet-BC is in batch_norm_test.py.
"""

import keras
import numpy as np
import pytest
from scipy import special

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


def dropouts(model):
    return [layer.name for layer in model.layers if "dropout" in layer.name]


def _windows(x, size, border):
    """`[rows, columns, channels, size, size]`; "same" pads with zeros, more at the end."""
    if border == "same":
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        x = np.pad(x, [(before, after), (before, after), (0, 0)])
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(0, 1))


class InNumpy:
    """Layers of a network by name, with its weights in float64, for one image."""

    def __init__(self, model):
        self.weights = {weight.path: weight.numpy().astype("float64") for weight in model.weights}

    def conv(self, x, name, stride=1, border="same"):
        kernel = self.weights[f"{name}/kernel"]
        windows = _windows(x, kernel.shape[0], border)[::stride, ::stride]
        return np.einsum("rcihw,hwio->rco", windows, kernel)

    def norm(self, x, name):
        scale = self.weights.get(f"{name}/gamma", 1.0)
        scale = scale / np.sqrt(self.weights[f"{name}/moving_variance"] + 1e-5)
        return (x - self.weights[f"{name}/moving_mean"]) * scale + self.weights[f"{name}/beta"]

    def wide_resnet(self, image, depth, stem_stride):
        x = self.conv(image, "stem", stem_stride)
        for block in (1, 2, 3):
            for unit in range(1, (depth - 4) // 6 + 1):
                scope = f"block{block}_unit{unit}"
                stride = 2 if block > 1 and unit == 1 else 1
                activated = np.maximum(self.norm(x, f"{scope}_bn1"), 0.0)
                residual = self.conv(activated, f"{scope}_conv1", stride)
                residual = np.maximum(self.norm(residual, f"{scope}_bn2"), 0.0)
                if f"{scope}_shortcut/kernel" in self.weights:
                    x = self.conv(activated, f"{scope}_shortcut", stride)
                x = x + self.conv(residual, f"{scope}_conv2")
        return np.maximum(self.norm(x, "final_bn"), 0.0).mean(axis=(0, 1))

    def fast_resnet(self, image, border):
        def silu(x):
            return x * special.expit(x)

        def unit(x, scope, kernel_border="same", pool=False):
            x = self.conv(x, f"{scope}_conv", border=kernel_border)
            if pool and border == "same":
                odd = [(0, size % 2) for size in x.shape[:2]]
                x = np.pad(x, [*odd, (0, 0)], constant_values=-np.inf)
            if pool:
                x = _windows(x, 2, "valid").max(axis=(-2, -1))[::2, ::2]
            return silu(self.norm(x, f"{scope}_bn"))

        x = silu(self.conv(image, "stem", border=border))
        for group in (1, 2, 3):
            scope = f"group{group}"
            x = unit(x, scope, border if group == 3 else "same", pool=True)
            x = x + unit(unit(x, f"{scope}_pair1"), f"{scope}_pair2")
        return (x.max(axis=(0, 1)) + x.mean(axis=(0, 1))) * 1.25 / 9


@pytest.mark.parametrize(
    ("name", "shape", "options", "oracle"),
    [
        ("wide_resnet", (8, 8, 1), {"depth": 10, "width": 1}, (10, 1)),
        ("wide_resnet", (8, 8, 2), {"depth": 10, "width": 2, "stem_stride": 2}, (10, 2)),
        ("wide_resnet", (7, 9, 1), {"depth": 16, "width": 1}, (16, 1)),
        ("fast_resnet", (16, 18, 3), {"width": 0.0625}, ("valid",)),
        ("fast_resnet", (8, 8, 1), {"width": 0.0625}, ("same",)),
        ("fast_resnet", (9, 13, 2), {"width": 0.0625}, ("same",)),
    ],
)
def test_equals_numpy(name, shape, options, oracle):
    model = getattr(backbones, name)(shape, dropout=0.3, seed=0, **options)
    rng = np.random.default_rng(0)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
        if hasattr(layer, "adapt"):
            layer.adapt(rng.normal(size=(50, *shape)))
    images = rng.normal(size=(2, *shape))
    expected = [getattr(InNumpy(model), name)(image, *oracle) for image in images]
    received = model(images.astype("float32"), training=False)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "options", "features", "heads", "parameters"),
    [
        ("densenet_bc", {}, 342, 1, 800_032),
        ("densenet_bc", {"input_shape": (32, 32, 6)}, 342, 2, 834_980),  # the paper's MIMO
        ("wide_resnet", {}, 640, 1, 36_536_884),
        ("fast_resnet", {}, 768, 1, 8_605_156),
        ("fast_resnet", {"width": 0.5}, 384, 1, 2_174_756),
    ],
)
def test_published_parameter_counts(name, options, features, heads, parameters):
    model = getattr(backbones, name)(**options)
    assert model.output_shape == (None, features)
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert trainable + heads * (features + 1) * 100 == parameters


DENSE_UNIT = [f"unit1_{layer}" for layer in ("bn1", "conv1", "bn2", "conv2")]
WIDE_UNIT = [f"unit1_{layer}" for layer in ("bn1", "conv1", "bn2", "shortcut", "conv2")]
LAYERS = {
    "densenet_bc": [
        *("stem", *(f"block1_{layer}" for layer in DENSE_UNIT), "transition1_bn"),
        *("transition1_conv", *(f"block2_{layer}" for layer in DENSE_UNIT), "transition2_bn"),
        *("transition2_conv", *(f"block3_{layer}" for layer in DENSE_UNIT), "final_bn"),
    ],
    "wide_resnet": [
        *("stem", *(f"block{block}_{layer}" for block in (1, 2, 3) for layer in WIDE_UNIT)),
        "final_bn",
    ],
    "fast_resnet": [
        "stem",
        *(
            f"group{group}{part}_{layer}"
            for group in (1, 2, 3)
            for part in ("", "_pair1", "_pair2")
            for layer in ("conv", "bn")
        ),
    ],
}


def test_layer_names_are_a_file_format():
    for model in (
        backbones.densenet_bc((8, 8, 1), depth=10, growth_rate=2),
        backbones.wide_resnet((8, 8, 1), depth=10, width=2),
        backbones.fast_resnet((8, 8, 1), width=0.0625),
    ):
        assert [layer.name for layer in model.layers if layer.weights] == LAYERS[model.name]
        assert {weight.path.split("/")[0] for weight in model.weights} == set(LAYERS[model.name])


def test_dropout_follows_every_convolution_but_the_stem():
    model = backbones.densenet_bc((8, 8, 1), depth=16, growth_rate=2, dropout=0.2)
    parents = parents_of(model)
    dropped = {parents[name][0] for name in dropouts(model)}
    convolutions = {layer.name for layer in model.layers if isinstance(layer, keras.layers.Conv2D)}
    assert dropped == convolutions - {"stem"}
    # Nothing reads a convolution past its dropout.
    readers = {name for name, sources in parents.items() if dropped & set(sources)}
    assert readers == set(dropouts(model))


def test_dropout_is_between_the_two_convolutions_of_each_unit():
    model = backbones.wide_resnet((8, 8, 1), depth=16, width=1, dropout=0.3)
    parents = parents_of(model)
    scopes = [f"block{block}_unit{unit}" for block in (1, 2, 3) for unit in (1, 2)]
    assert dropouts(model) == [f"{scope}_dropout" for scope in scopes]
    for scope in scopes:
        assert parents[f"{scope}_dropout"] == [f"{scope}_relu2"]
        assert parents[f"{scope}_conv2"] == [f"{scope}_dropout"]
        assert model.get_layer(f"{scope}_dropout").rate == 0.3


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
