"""The fast residual network: parameter counts, a NumPy forward pass, its start, its stem."""

import keras
import numpy as np
import pytest
from scipy import linalg, special

from s2d_tf import backbones, models
from s2d_tf.backbones.fast_resnet import (
    EIGENVALUE_FLOOR,
    IdentityInitializer,
    PatchWhitening,
    whitening_filters,
)
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


def _correlated(shape=(200, 8, 8, 3), seed=0):
    """Images whose neighboring pixels and channels are correlated, as in photographs."""
    rng = np.random.default_rng(seed)
    coarse = rng.normal(size=(shape[0], shape[1] // 2 + 1, shape[2] // 2 + 1, shape[3]))
    smooth = coarse.repeat(2, axis=1).repeat(2, axis=2)[:, 1 : shape[1] + 1, 1 : shape[2] + 1]
    noise = rng.normal(size=shape)
    return (smooth + 0.5 * noise) @ rng.normal(size=(shape[3], shape[3]))


def _patches(images):
    """The patches that do not overlap, in the order of a kernel, one a row."""
    n, height, width, channels = images.shape
    tiles = images[:, : height // 2 * 2, : width // 2 * 2]
    tiles = tiles.reshape(n, height // 2, 2, width // 2, 2, channels)
    return tiles.transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4 * channels)


@pytest.mark.parametrize("channels", [1, 3, 6])
def test_outputs_on_the_fitting_patches_have_identity_covariance(channels):
    images = _correlated((200, 8, 8, channels))
    stem = PatchWhitening()
    stem.adapt(images)
    # Every second output belongs to the patches that do not overlap.
    outputs = stem(images.astype("float32")).numpy()[:, ::2, ::2]
    assert outputs.shape == (200, 4, 4, 8 * channels)
    half = 4 * channels
    np.testing.assert_array_equal(outputs[..., half:], -outputs[..., :half])
    covariance = np.cov(outputs[..., :half].reshape(-1, half), rowvar=False)
    # The floor makes small directions a little smaller than 1.
    values = linalg.eigvalsh(np.cov(_patches(images), rowvar=False))[::-1]
    np.testing.assert_allclose(covariance, np.diag(values / (values + EIGENVALUE_FLOOR)), atol=2e-4)


def test_a_fresh_layer_is_not_fitted_and_never_trains():
    stem = PatchWhitening()
    assert not stem.fitted
    stem.build((None, 8, 8, 3))
    assert not stem.fitted
    assert not stem.trainable_weights
    stem.adapt(_correlated())
    assert stem.fitted
    assert not stem.trainable_weights


def test_contract():
    arguments = {"padding": "same", "name": "stem"}
    images, policies = _correlated()[:6].astype("float32"), ("float64",)
    contracts.run_layer_test(PatchWhitening, arguments, images, (None, 8, 8, 24), 0, policies)
    stem = PatchWhitening(**arguments)
    stem.adapt(images)
    copy = PatchWhitening.from_config(stem.get_config())
    assert (copy.name, copy.padding, copy.trainable) == ("stem", "same", False)
    assert not copy.fitted
    copy.build(images.shape)
    assert copy.get_config() == stem.get_config()


@pytest.mark.parametrize("num_heads", [1, 2])
def test_a_classifier_fits_its_stem_to_normalized_images_once(num_heads):
    images = np.random.default_rng(0).integers(0, 256, (64, 8, 8, 3)).astype("uint8")
    backbone = backbones.fast_resnet((8, 8, 3 * num_heads), width=0.0625, seed=0)
    model = models.Classifier(
        backbone, 4, mean=[100.0] * 3, stddev=[50.0] * 3, num_heads=num_heads, seed=0
    )
    model.adapt(images)
    normalized = (images.astype("float64") - 100.0) / 50.0
    rolled = [np.roll(normalized, head, axis=0) for head in range(num_heads)]
    expected = whitening_filters(np.concatenate(rolled, axis=-1))
    kernel = backbone.get_layer("stem").kernel
    np.testing.assert_allclose(np.abs(kernel), np.abs(expected), rtol=2e-2, atol=1e-3)
    before = kernel.numpy()
    model.adapt(images[::-1][:10])
    np.testing.assert_array_equal(kernel.numpy(), before)
