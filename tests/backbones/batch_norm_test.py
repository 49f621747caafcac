"""The fused batch norm is Keras' batch norm: outputs, gradients, statistics, weights file."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.backbones.batch_norm import BatchNormalization
from tests import contracts

SHAPE = (6, 5, 3, 7)


def _layer(cls, shape=SHAPE, **kwargs):
    layer = cls(momentum=0.9, epsilon=1e-5, **kwargs)
    layer.build(shape)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.uniform(0.5, 2.0, weight.shape) for weight in layer.weights])
    return layer


def _train_step(layer, images, cotangent):
    """Outputs, gradients (inputs, gamma, beta) and moving statistics of one training call."""
    variables = [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = layer(images, training=True)
        loss = tf.reduce_sum(outputs * tf.cast(cotangent, outputs.dtype))
    return (
        outputs,
        tape.gradient(loss, [images, *variables]),
        layer.moving_mean.value,
        layer.moving_variance.value,
    )


def _images(shape=SHAPE, loc=3.0, dtype="float32"):
    return tf.constant(np.random.default_rng(2).normal(loc, 2.0, shape), dtype)


@pytest.mark.parametrize("jit", [None, False, True], ids=["eager", "graph", "xla"])
@pytest.mark.parametrize("loc", [0.0, 50.0], ids=["centered", "far from zero"])
@pytest.mark.parametrize("scale", [True, False], ids=["scaled", "unscaled"])
def test_training_step_equals_keras(jit, loc, scale):
    images = _images(loc=loc)
    cotangent = _images(loc=0.0)
    results = []
    for cls in (keras.layers.BatchNormalization, BatchNormalization):
        layer = _layer(cls, scale=scale)
        step = _train_step if jit is None else tf.function(_train_step, jit_compile=jit)
        results.append(tf.nest.flatten(step(layer, images, cotangent)))
    for expected, received in zip(*results, strict=True):
        np.testing.assert_allclose(received, expected, rtol=2e-4, atol=2e-4)


def test_moving_variance_is_the_biased_variance_of_numpy():
    layer = _layer(BatchNormalization)
    before = layer.moving_variance.numpy()
    # Six numbers a channel: the unbiased variance would be a fifth larger.
    images = _images((2, 3, 1, 7))
    layer(images, training=True)
    expected = 0.9 * before + 0.1 * np.var(images.numpy().astype("float64"), axis=(0, 1, 2))
    np.testing.assert_allclose(layer.moving_variance.numpy(), expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [True, False])
def test_training_uses_one_kernel(scale):
    layer = _layer(BatchNormalization, scale=scale)
    graph = tf.function(lambda x: layer(x, training=True)).get_concrete_function(_images()).graph
    operations = {operation.type for operation in graph.get_operations()}
    assert "FusedBatchNormV3" in operations
    assert "SquaredDifference" not in operations


@pytest.mark.parametrize("jit", [False, True], ids=["graph", "xla"])
def test_a_large_mean_does_not_cancel(jit):
    images = _images((32, 8, 8, 2), loc=1000.0)
    layer = BatchNormalization(epsilon=1e-5)
    layer.build(images.shape)
    received = tf.function(lambda x: layer(x, training=True), jit_compile=jit)(images)
    exact = images.numpy().astype("float64")
    expected = (exact - exact.mean(axis=(0, 1, 2))) / exact.std(axis=(0, 1, 2))
    np.testing.assert_allclose(received, expected, atol=2e-3)


def test_one_value_a_channel_stays_finite():
    layer = _layer(BatchNormalization, (1, 1, 1, 7))
    outputs = layer(_images((1, 1, 1, 7)), training=True)
    np.testing.assert_allclose(outputs.numpy()[0, 0, 0], layer.beta.numpy(), rtol=1e-6)
    assert np.isfinite(layer.moving_variance.numpy()).all()


@pytest.mark.parametrize(
    ("shape", "kwargs"),
    [
        ((8, 7), {}),
        ((4, 5, 7), {}),
        (SHAPE, {"axis": 1}),
        (SHAPE, {"synchronized": True}),
        (SHAPE, {"center": False}),
        (SHAPE, {"renorm": True}),
        (SHAPE, {"dtype": "float64"}),
        (SHAPE, {"dtype": "mixed_float16"}),
        (SHAPE, {"dtype": "bfloat16"}),
    ],
)
def test_what_the_kernel_does_not_do_the_parent_does(shape, kwargs):
    images = _images(shape, dtype="float64" if kwargs.get("dtype") == "float64" else "float32")
    results = []
    for cls in (keras.layers.BatchNormalization, BatchNormalization):
        layer = _layer(cls, shape, **kwargs)
        outputs = layer(images, training=True)
        results.append([outputs.dtype, tf.cast(outputs, tf.float64).numpy(), *layer.get_weights()])
    assert results[0][0] == results[1][0]
    for expected, received in zip(results[0][1:], results[1][1:], strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("scale", [True, False])
def test_bfloat16_has_the_kernel_and_statistics_in_float32(scale):
    images, cotangent = _images((8, 6, 6, 16), dtype="bfloat16"), _images((8, 6, 6, 16), loc=0.0)
    results = []
    for cls in (keras.layers.BatchNormalization, BatchNormalization):
        layer = _layer(cls, images.shape, scale=scale, dtype="mixed_bfloat16")
        step = tf.function(_train_step)
        results.append(tf.nest.flatten(step(layer, images, cotangent)))
        assert {weight.dtype for weight in layer.weights} == {"float32"}
    graph = step.get_concrete_function(layer, images, cotangent).graph
    assert "FusedBatchNormV3" in {operation.type for operation in graph.get_operations()}
    for expected, received in zip(*results, strict=True):
        assert received.dtype == expected.dtype
        error = np.linalg.norm(np.float64(received) - np.float64(expected))
        assert error < 0.01 * np.linalg.norm(np.float64(expected))
    np.testing.assert_allclose(results[1][-1], results[0][-1], rtol=1e-4)


def test_mask_leaves_rows_out_as_in_keras():
    images = _images()
    mask = np.ones(SHAPE[:-1], bool)
    mask[2:] = False
    layers = [_layer(cls) for cls in (keras.layers.BatchNormalization, BatchNormalization)]
    expected, received = (layer(images, training=True, mask=mask).numpy() for layer in layers)
    np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("scale", [True, False])
def test_inference_and_frozen_layers_use_and_keep_the_moving_statistics(scale):
    layer = _layer(BatchNormalization, scale=scale)
    images = _images()
    before = layer.get_weights()
    *gamma, beta, mean, variance = before
    expected = (gamma[0] if scale else 1.0) * (images.numpy() - mean) / np.sqrt(
        variance + 1e-5
    ) + beta
    np.testing.assert_allclose(layer(images, training=False), expected, rtol=1e-4, atol=1e-5)
    layer.trainable = False
    np.testing.assert_allclose(layer(images, training=True), expected, rtol=1e-4, atol=1e-5)
    for expected, received in zip(before, layer.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)


@pytest.mark.parametrize("synchronized", [True, False])
def test_contract(synchronized):
    arguments = {"name": "bn", "synchronized": synchronized}
    shape = (None, *SHAPE[1:])
    images = _images().numpy()
    contracts.run_layer_test(BatchNormalization, arguments, images, shape, 2, training=True)
    layers = [cls(name="bn") for cls in (BatchNormalization, keras.layers.BatchNormalization)]
    assert set(layers[0].get_config()) == set(layers[1].get_config())


def test_weights_files_are_interchangeable_with_keras(tmp_path):
    path = tmp_path / "model.weights.h5"

    def build(cls):
        model = keras.Sequential([keras.Input(SHAPE[1:]), cls(), keras.layers.ReLU(), cls()])
        rng = np.random.default_rng(model.count_params() if cls is BatchNormalization else 0)
        model.set_weights([rng.uniform(0.5, 2.0, weight.shape) for weight in model.weights])
        return model

    ours, theirs = build(BatchNormalization), build(keras.layers.BatchNormalization)
    ours.save_weights(path)
    theirs.load_weights(path)
    for expected, received in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(received, expected)
