"""The start of the fast residual network, and its whitening stem."""

import numpy as np
import pytest
from scipy import linalg

from s2d_tf import backbones, models
from s2d_tf.backbones.fast_resnet import (
    EIGENVALUE_FLOOR,
    IdentityInitializer,
    PatchWhitening,
    whitening_filters,
)
from tests import contracts


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
    np.testing.assert_allclose(outputs[..., half:], -outputs[..., :half], atol=1e-5)
    covariance = np.cov(outputs[..., :half].reshape(-1, half), rowvar=False)
    # The floor makes small directions a little smaller than 1.
    values = linalg.eigvalsh(np.cov(_patches(images), rowvar=False))[::-1]
    np.testing.assert_allclose(covariance, np.diag(values / (values + EIGENVALUE_FLOOR)), atol=2e-4)


def test_contract_and_when_it_is_fitted():
    arguments = {"padding": "same", "name": "stem"}
    images, policies = _correlated()[:6].astype("float32"), ("float64",)
    contracts.run_layer_test(PatchWhitening, arguments, images, (None, 8, 8, 24), 0, policies)
    stem = PatchWhitening(**arguments)
    assert not stem.fitted
    stem.build(images.shape)
    assert not stem.fitted
    stem.adapt(images)
    assert stem.fitted
    assert not PatchWhitening.from_config(stem.get_config()).fitted


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
