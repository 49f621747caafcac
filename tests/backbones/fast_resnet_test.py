"""The fast residual network: parameter counts, a NumPy forward pass, its initializer."""

import keras
import numpy as np
import pytest
from scipy import special

from s2d_tf import backbones
from s2d_tf.backbones.fast_resnet import IdentityInitializer
from tests import contracts

WEIGHTED_LAYERS = [
    "stem",
    *(
        f"group{group}{part}_{layer}"
        for group in (1, 2, 3)
        for part in ("", "_pair1", "_pair2")
        for layer in ("conv", "bn")
    ),
]


def _fitted(shape, seed=0, **kwargs):
    """A network whose stem is fitted and whose batch norms are not trivial; and images."""
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(3, *shape)).astype("float32")
    known = tuple(kwargs.pop("input_shape", shape))
    model = backbones.fast_resnet(known, seed=seed, **kwargs)
    model.get_layer("stem").adapt(rng.normal(size=(50, *shape)))
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.set_weights([rng.uniform(0.5, 1.5, weight.shape) for weight in layer.weights])
    return model, images


def _windows(x, size, border, fill=0.0):
    """`[rows, columns, channels, size, size]`; "same" pads as TensorFlow does, more at the end."""
    if border == "same":
        before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
        x = np.pad(x, [(before, after), (before, after), (0, 0)], constant_values=fill)
    return np.lib.stride_tricks.sliding_window_view(x, (size, size), axis=(0, 1))


def _conv(x, kernel, border):
    return np.einsum("rcihw,hwio->rco", _windows(x, kernel.shape[0], border), kernel)


def _pool(x, border):
    if border == "same":
        odd = [(0, size % 2) for size in x.shape[:2]]
        x = np.pad(x, [*odd, (0, 0)], constant_values=-np.inf)
    return _windows(x, 2, "valid").max(axis=(-2, -1))[::2, ::2]


def _silu(x):
    return x * special.expit(x)


def _numpy_fast_resnet(image, weights, border):
    def unit(x, scope, kernel_border, pool=False):
        x = _conv(x, weights[f"{scope}_conv/kernel"], kernel_border)
        x = _pool(x, border) if pool else x
        bn = {name: weights[f"{scope}_bn/{name}"] for name in ("beta", "moving_mean")}
        deviation = np.sqrt(weights[f"{scope}_bn/moving_variance"] + 1e-5)
        return _silu((x - bn["moving_mean"]) / deviation + bn["beta"])

    x = _silu(_conv(image, weights["stem/kernel"], border))
    for group in (1, 2, 3):
        scope = f"group{group}"
        x = unit(x, scope, border if group == 3 else "same", pool=True)
        x = x + unit(unit(x, f"{scope}_pair1", "same"), f"{scope}_pair2", "same")
    return (x.max(axis=(0, 1)) + x.mean(axis=(0, 1))) * 1.25 / 9


@pytest.mark.parametrize(
    ("shape", "border"), [((16, 18, 3), "valid"), ((8, 8, 1), "same"), ((9, 13, 2), "same")]
)
def test_equals_numpy(shape, border):
    model, images = _fitted(shape, width=0.0625, dropout=0.3)
    weights = {weight.path: weight.numpy().astype("float64") for weight in model.weights}
    expected = [_numpy_fast_resnet(image.astype(float), weights, border) for image in images]
    np.testing.assert_allclose(model(images, training=False), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("width", "parameters"), [(1.0, 8_605_156), (0.5, 2_174_756)])
def test_parameter_counts(width, parameters):
    model = backbones.fast_resnet(width=width)
    assert model.output_shape == (None, 768 * width)
    trainable = sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)
    assert trainable + (768 * width + 1) * 100 == parameters
    assert not model.get_layer("stem").trainable_weights


def test_layer_names_are_a_file_format():
    model = backbones.fast_resnet((8, 8, 1), width=0.0625)
    assert [layer.name for layer in model.layers if layer.weights] == WEIGHTED_LAYERS
    assert model.get_layer("group1_conv").kernel.path == "group1_conv/kernel"


@pytest.mark.parametrize("shape", [(3, 3, 4, 6), (1, 1, 6, 4), (2, 2, 3, 3), (3, 3, 1, 5)])
def test_the_first_filters_copy_their_channel(shape):
    height, width, channels, filters = shape
    kernel = np.asarray(IdentityInitializer(seed=3)(shape, "float32"))
    copied = min(channels, filters)
    expected = np.zeros(shape[:3])
    for index in range(copied):
        expected[:] = 0.0
        expected[height // 2, width // 2, index] = 1.0
        np.testing.assert_array_equal(kernel[..., index], expected)
    limit = np.sqrt(6.0 / (height * width * channels))
    rest = kernel[..., copied:]
    assert np.all(np.abs(rest) <= limit)
    assert rest.size == 0 or np.ptp(rest) > 0.5 * limit
    copy = contracts.run_serialization_test(IdentityInitializer(seed=3))
    np.testing.assert_array_equal(copy(shape, "float32"), kernel)
