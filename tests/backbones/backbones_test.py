"""What all backbones promise: shapes, seeds, gradients, serialization, errors."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import backbones
from s2d_tf.backbones import blocks
from tests import contracts

TINY = {
    "densenet_bc": {"input_shape": (8, 8, 1), "depth": 10, "growth_rate": 4},
    "fast_resnet": {"input_shape": (8, 8, 1), "width": 0.0625},
    "wide_resnet": {"input_shape": (8, 8, 1), "depth": 10, "width": 1},
}


def tiny(network, /, **kwargs):
    return getattr(backbones, network)(**{**TINY[network], **kwargs})


@pytest.fixture(params=sorted(TINY))
def build(request):
    """Builds a tiny network; keyword arguments override."""
    return functools.partial(tiny, request.param)


def fit_stem(model):
    """Fits a whitening stem, as training does, where there is one."""
    for layer in model.layers:
        if hasattr(layer, "adapt"):
            layer.adapt(_images(layer.input.shape[1:], batch=50))
    return model


def _images(shape=(8, 8, 1), batch=4):
    return np.random.default_rng(0).normal(size=(batch, *shape)).astype("float32")


@pytest.mark.parametrize("shape", [(8, 8, 6), (9, 13, 2), (1, 1, 1), (32, 32, 3)])
def test_any_input_size(build, shape):
    model = build(input_shape=shape, dropout=0.1)
    features = model(_images(shape), training=True)
    assert features.shape == (4, model.output_shape[-1])
    assert np.isfinite(features).all()


def test_the_same_seed_gives_the_same_network_whatever_was_built_before(build):
    first = build(seed=5, dropout=0.3)
    keras.utils.set_random_seed(99)
    build(seed=6, dropout=0.3)
    second = build(seed=5, dropout=0.3)
    contracts.assert_same(second.get_weights(), first.get_weights())
    for _ in range(2):
        expected, received = (model(_images(), training=True) for model in (first, second))
        np.testing.assert_array_equal(received, expected)


def test_gradient_reaches_every_trainable_weight(build):
    model = fit_stem(build(seed=0))
    variables = [weight.value for weight in model.trainable_weights]
    with tf.GradientTape() as tape:
        features = model(_images(batch=8), training=True)
        # Random weights, because batch norm makes a plain sum nearly constant.
        cotangent = np.random.default_rng(1).normal(size=features.shape)
        loss = tf.reduce_sum(features * cotangent.astype("float32"))
    gradients = tape.gradient(loss, variables)
    for weight, gradient in zip(model.trainable_weights, gradients, strict=True):
        assert gradient is not None, weight.path
        assert np.isfinite(gradient).all(), weight.path
        assert np.abs(gradient).max() > 1e-6, weight.path


def test_config_and_weights_file_round_trip(build, tmp_path):
    model = build(seed=3, dropout=0.2, name="teacher")
    copy = keras.Model.from_config(model.get_config())
    assert copy.name == "teacher"
    assert copy.get_config() == model.get_config()
    # The seeds travel with the config, so even the fresh weights are the same.
    contracts.assert_same(copy.get_weights(), model.get_weights())
    classes = {layer["registered_name"] or "" for layer in model.get_config()["layers"]}
    assert not [name for name in classes if "Lambda" in name]
    fit_stem(model)(_images(), training=True)
    model.save_weights(tmp_path / "backbone.weights.h5")
    copy.load_weights(tmp_path / "backbone.weights.h5")
    np.testing.assert_array_equal(copy(_images()), model(_images()))


def test_graph_and_xla_equal_eager(build):
    model = fit_stem(build(seed=0))
    expected = model(_images())
    for jit in (False, True):
        received = tf.function(model, jit_compile=jit)(_images())
        np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)


def test_mixed_precision(build):
    keras.config.set_dtype_policy("mixed_bfloat16")
    model = fit_stem(build(seed=0, dropout=0.2))
    keras.config.set_dtype_policy("float32")
    features = model(_images(), training=True)
    assert keras.backend.standardize_dtype(features.dtype) == "bfloat16"
    assert {weight.dtype for weight in model.trainable_weights} == {"float32"}
    twin = build(seed=0, dropout=0.2)
    twin.set_weights(model.get_weights())
    single, half = twin(_images()), tf.cast(model(_images()), "float32")
    np.testing.assert_allclose(half, single, rtol=0.1, atol=0.1)


def test_free_sizes_train_as_fixed_ones(build):
    """Features, gradients, moving averages and parameter counts, also of a size that folds less."""
    for shape in ((16, 16, 3), (15, 17, 3)):
        fixed = fit_stem(build(input_shape=shape, seed=0))
        free = build(input_shape=(None, None, 3), seed=0)
        free.set_weights(fixed.get_weights())
        assert free.count_params() == fixed.count_params()
        results = []
        for model in (fixed, free):
            variables = [weight.value for weight in model.trainable_weights]
            with tf.GradientTape() as tape:
                features = model(_images(shape), training=True)
                loss = tf.reduce_sum(features**2)
            results.append([features, *tape.gradient(loss, variables), *model.get_weights()])
        contracts.assert_same(*results, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("network", "argument", "value"),
    [
        ("densenet_bc", "depth", 11),
        ("wide_resnet", "depth", 4),
        ("densenet_bc", "reduction", 1.1),
        ("densenet_bc", "reduction", float("nan")),
    ],
)
def test_arguments_that_would_build_another_network_are_rejected(network, argument, value):
    with pytest.raises(ValueError, match=rf"{argument}: expected .*, received {value!r}\."):
        tiny(network, **{argument: value})


def test_layer_seeds_are_distinct_over_layers_and_neighboring_networks_and_fixed_forever():
    names = [f"block{b}_unit{u}_conv{c}" for b in (1, 2, 3) for u in range(1, 17) for c in (1, 2)]
    seeds = {blocks.layer_seed(seed, name) for seed in range(20) for name in names}
    assert len(seeds) == 20 * len(names)
    assert all(0 <= seed < 2**31 for seed in seeds)
    # A published run names only its seed; these values must survive any change of the code.
    assert blocks.layer_seed(0, "stem") == 1957122231
    assert blocks.layer_seed(np.int64(0), "stem") == blocks.layer_seed(0, "stem")
    assert blocks.layer_seed(None, "stem") is None
