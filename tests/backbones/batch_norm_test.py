"""The fused batch norm is Keras' own, and shared statistics change nothing but the time."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import convert_to_constants

from s2d_tf import backbones
from s2d_tf.backbones import batch_norm, blocks
from s2d_tf.backbones.batch_norm import (
    BatchNormalization,
    Moments,
    NormalizedConv2D,
    SharedBatchNormalization,
)
from tests import contracts

SHAPE = (6, 5, 3, 7)


def _layer(cls, shape=SHAPE, **kwargs):
    layer = cls(momentum=0.9, epsilon=1e-5, **kwargs)
    layer.build(shape)
    rng = np.random.default_rng(1)
    layer.set_weights([rng.uniform(0.5, 2.0, weight.shape) for weight in layer.weights])
    return layer


def _train_step(model, images, upstream):
    """Outputs and gradients (by inputs and trainable weights) of one training call."""
    sources = [images, *(weight.value for weight in model.trainable_weights)]
    with tf.GradientTape() as tape:
        tape.watch(images)
        outputs = model(images, training=True)
        loss = tf.reduce_sum(outputs * upstream)
    return outputs, tape.gradient(loss, sources)


def _maps(shape, seed=0, loc=1.0):
    return np.random.default_rng(seed).normal(loc, 2.0, shape)


def _images(shape=SHAPE, loc=3.0, dtype="float32"):
    return tf.constant(_maps(shape, 2, loc), dtype)


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
        results.append([step(layer, images, cotangent), layer.get_weights()])
    contracts.assert_same(*results, rtol=2e-4, atol=2e-4)


def test_a_large_mean_does_not_cancel():
    images = _images((32, 8, 8, 2), loc=1000.0)
    exact = images.numpy().astype("float64")
    expected = (exact - exact.mean(axis=(0, 1, 2))) / exact.std(axis=(0, 1, 2))
    for jit in (False, True):
        layer = BatchNormalization(epsilon=1e-5)
        received = tf.function(layer, jit_compile=jit)(images, training=True)
        np.testing.assert_allclose(received, expected, atol=2e-3)


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
    contracts.assert_same(results[1][1:], results[0][1:])


@pytest.mark.parametrize("scale", [True, False])
def test_inference_and_frozen_layers_use_and_keep_the_moving_statistics(scale):
    layer = _layer(BatchNormalization, scale=scale)
    images = _images()
    before = layer.get_weights()
    *gamma, beta, mean, variance = before
    factor = (gamma[0] if scale else 1.0) / np.sqrt(variance + 1e-5)
    expected = factor * (images.numpy() - mean) + beta
    np.testing.assert_allclose(layer(images, training=False), expected, rtol=1e-4, atol=1e-5)
    layer.trainable = False
    np.testing.assert_allclose(layer(images, training=True), expected, rtol=1e-4, atol=1e-5)
    contracts.assert_same(layer.get_weights(), before)


@pytest.mark.parametrize("synchronized", [True, False])
def test_contract(synchronized):
    arguments = {"name": "bn", "synchronized": synchronized}
    shape = (None, *SHAPE[1:])
    images = _images().numpy()
    contracts.run_layer_test(BatchNormalization, arguments, images, shape, 2, training=True)
    layers = [cls(name="bn") for cls in (BatchNormalization, keras.layers.BatchNormalization)]
    assert set(layers[0].get_config()) == set(layers[1].get_config())


def test_weights_files_are_interchangeable_with_keras(tmp_path):
    ours, theirs = (
        keras.Sequential([keras.Input(SHAPE[1:]), cls(), keras.layers.ReLU(), cls()])
        for cls in (BatchNormalization, keras.layers.BatchNormalization)
    )
    ours.set_weights([_maps(weight.shape, seed=i) for i, weight in enumerate(ours.weights)])
    ours.save_weights(tmp_path / "model.weights.h5")
    theirs.load_weights(tmp_path / "model.weights.h5")
    contracts.assert_same(theirs.get_weights(), ours.get_weights())


EPSILON = 1e-5
# Channels that fill whole vectors, that do so with 2 and 4 pixels; pixels that cannot be paired.
SHAPES = [(3, 4, 4, 16), (3, 4, 4, 24), (3, 4, 2, 12), (2, 5, 3, 12), (2, 4, 4, 7)]


def _statistics(channels, seed=1):
    rng = np.random.default_rng(seed)
    gamma, beta, mean = rng.normal(size=(3, channels))
    return np.stack([gamma, beta, mean, rng.uniform(0.5, 3.0, channels)])


def _reference(x, statistics):
    gamma, beta, mean, variance = tf.unstack(statistics)
    return gamma * (x - mean) / tf.sqrt(variance + EPSILON) + beta


@pytest.mark.parametrize("shape", SHAPES)
def test_normalize_and_its_gradient(shape):
    x, statistics = tf.constant(_maps(shape)), tf.constant(_statistics(shape[-1]))
    upstream = _maps(shape, seed=2)
    with tf.GradientTape() as tape:
        tape.watch([x, statistics])
        outputs = _reference(x, statistics)
        loss = tf.reduce_sum(outputs * upstream)
    expected = [outputs, tf.nn.relu(outputs), *tape.gradient(loss, [x, statistics])]
    upstream, x, statistics = (tf.cast(part, tf.float32) for part in (upstream, x, statistics))
    received = [batch_norm.normalize(x, statistics, EPSILON, relu) for relu in (False, True)]
    received += batch_norm.normalize_gradient(upstream, x, statistics, EPSILON)
    contracts.assert_same(received, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("loc", [0.0, 50.0], ids=["centered", "far from zero"])
@pytest.mark.parametrize("shape", SHAPES)
def test_moments_and_their_gradient(shape, loc):
    x, weights = _maps(shape, loc=loc), _maps([2, shape[-1]], seed=3)
    results = []
    for dtype, moments in (
        (tf.float64, lambda x: tf.stack(tf.nn.moments(x, [0, 1, 2]))),
        (tf.float32, batch_norm.moments),
    ):
        maps = tf.constant(x, dtype)
        with tf.GradientTape() as tape:
            tape.watch(maps)
            found = moments(maps)
            loss = tf.reduce_sum(found * tf.constant(weights, dtype))
        results.append((found, tape.gradient(loss, maps)))
    contracts.assert_same(*results, rtol=1e-5, atol=1e-5)


def test_contracts_of_shared_statistics():
    maps, statistics = (np.float32(x) for x in (_maps((2, 4, 4, 16)), _statistics(16)))
    run, options = contracts.run_layer_test, {"policies": (), "rtol": 1e-5}
    run(Moments, {"synchronized": True}, maps, (2, 16), training=True, **options)
    arguments = {"momentum": 0.8, "epsilon": 0.1}
    run(SharedBatchNormalization, arguments, statistics[2:], (4, 16), 2, training=True, **options)
    arguments = {"filters": 3, "kernel_size": 1, "epsilon": 0.2}
    inputs = ([maps[..., :9], maps[..., 9:]], statistics)
    run(NormalizedConv2D, arguments, inputs, (2, 4, 4, 3), 1, **options)


def test_frozen_shared_statistics_use_and_keep_the_moving_statistics():
    layer = SharedBatchNormalization(momentum=0.9)
    layer.build((2, 3))
    moments = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    np.testing.assert_allclose(layer(moments, training=True)[2:], moments)
    moved = 0.1 * moments + [[0.0] * 3, [0.9] * 3]
    np.testing.assert_allclose(layer(moments, training=False)[2:], moved, rtol=1e-6)
    layer.trainable = False
    np.testing.assert_allclose(layer(moments, training=True)[2:], moved, rtol=1e-6)


class _Float64:
    """DenseNet-BC in elementary operations on the variables of a model; no shared statistics."""

    def __init__(self, model):
        self.variables = {v.path: tf.cast(v.value, tf.float64) for v in model.variables}
        self.moved = {}

    def __call__(self, x, units, stem_stride=1):
        x = self.conv(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), "stem", stem_stride, "VALID")
        for block in (1, 2, 3):
            for unit in range(1, units + 1):
                scope = f"block{block}_unit{unit}"
                new = self.conv(self.norm_relu(x, f"{scope}_bn1"), f"{scope}_conv1")
                new = self.conv(self.norm_relu(new, f"{scope}_bn2"), f"{scope}_conv2")
                x = tf.concat([x, new], -1)
            if block < 3:
                x = self.norm_relu(x, f"transition{block}_bn")
                x = tf.nn.avg_pool2d(self.conv(x, f"transition{block}_conv"), 2, 2, "SAME")
        return tf.reduce_mean(self.norm_relu(x, "final_bn"), [1, 2])

    def conv(self, x, name, strides=1, padding="SAME"):
        return tf.nn.conv2d(x, self.variables[f"{name}/kernel"], strides, padding)

    def norm_relu(self, x, name):
        mean, variance = tf.nn.moments(x, [0, 1, 2])
        for part, value in (("mean", mean), ("variance", variance)):
            path = f"{name}/moving_{part}"
            self.moved[path] = 0.9 * self.variables[path] + 0.1 * value
        gamma, beta = (self.variables[f"{name}/{part}"] for part in ("gamma", "beta"))
        return tf.nn.relu(gamma * (x - mean) / tf.sqrt(variance + EPSILON) + beta)


@pytest.mark.parametrize(
    ("jit", "units", "size", "stride"),
    [
        pytest.param(None, 3, (8, 8), 1, id="eager"),
        pytest.param(None, 1, (7, 9), 1, id="odd"),
        pytest.param(None, 2, (8, 8), 2, id="strided"),
        pytest.param(False, 3, (8, 8), 1, id="graph"),
        pytest.param(True, 3, (8, 8), 1, id="xla", marks=pytest.mark.slow),
    ],
)
def test_a_training_step_of_the_network_is_that_of_float64(jit, units, size, stride, monkeypatch):
    monkeypatch.setattr(blocks, "UNITS_APART", 2)  # In a block of three the maps are joined.
    depth = 6 * units + 4
    model = backbones.densenet_bc((*size, 3), depth, 4, stem_stride=stride, seed=0)
    rng = np.random.default_rng(5)
    for variable in model.variables:
        if "bn" in variable.path:
            variable.assign(rng.uniform(0.5, 1.5, variable.shape))
    images, upstream = _maps((6, *size, 3)), _maps((6, model.output_shape[-1]), seed=4)
    oracle = _Float64(model)
    trainable = {v.path: oracle.variables[v.path] for v in model.trainable_variables}
    with tf.GradientTape() as tape:
        tape.watch(trainable)
        expected = oracle(tf.constant(images), units, stride)
        loss = tf.reduce_sum(expected * upstream)
    gradients = tape.gradient(loss, trainable)

    step = _train_step if jit is None else tf.function(_train_step, jit_compile=jit)
    single = [tf.constant(part, tf.float32) for part in (images, upstream)]
    features, (_, *received) = step(model, *single)
    np.testing.assert_allclose(features, expected, rtol=1e-4, atol=1e-5)
    for variable, gradient in zip(model.trainable_variables, received, strict=True):
        wanted = gradients[variable.path].numpy()
        error = np.linalg.norm(gradient.numpy() - wanted) / np.linalg.norm(wanted)
        assert error < 1e-4, variable.path
    for variable in model.non_trainable_variables:
        if variable.path in oracle.moved:
            moved = oracle.moved[variable.path]
            np.testing.assert_allclose(variable.value, moved, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("joined", "masked"), [(1, False), (2, False), (2, True)])
def test_graphs_fold_a_batch_norm_into_the_convolution_before_it(joined, masked):
    conv = NormalizedConv2D(8, 1, epsilon=EPSILON)
    norm = _layer(BatchNormalization, (3, 4, 4, 8))
    masks = np.random.default_rng(6).uniform(size=(3, 4, 4, 8)) < 0.5
    maps = tf.split(tf.constant(_maps((3, 4, 4, 16)), tf.float32), joined, axis=-1)
    statistics = tf.constant(_statistics(16), tf.float32)
    mask = (lambda x: tf.where(masks, x, 0.0)) if masked else (lambda x: x)

    def predict(*maps):
        return norm(mask(conv(list(maps), statistics, training=False)), training=False)

    symbolic = [keras.Input(x.shape[1:]) for x in maps]
    assert conv(symbolic, statistics, training=False).shape[1:] == (4, 4, 8)
    graph = tf.function(predict).get_concrete_function(*maps)
    normalized = tf.nn.relu(_reference(tf.concat(maps, -1), statistics))
    expected = _reference(mask(normalized @ conv.kernel[0, 0]), tf.stack(norm.get_weights()))
    contracts.assert_same([graph(*maps), predict(*maps)], [expected] * 2, rtol=1e-4, atol=1e-5)
    frozen = convert_to_constants.convert_variables_to_constants_v2(graph)
    kernels = [node.op for node in frozen.graph.as_graph_def().node]
    assert [kernels.count(k) for k in ("Conv2D", "FusedBatchNormV3")] == [joined, joined + masked]


def test_synchronized_moments_are_those_of_all_replicas(two_replicas):
    images = tf.constant(_maps((8, 8, 8, 3)), tf.float32)
    with two_replicas.scope():
        model = backbones.densenet_bc((8, 8, 3), 10, 4, synchronized_batch_norm=True, seed=0)
    halves = two_replicas.experimental_distribute_values_from_function(
        lambda context: tf.split(images, 2)[context.replica_id_in_sync_group]
    )
    parts = two_replicas.run(tf.function(lambda x: model(x, training=True)), [halves])
    received = tf.concat(two_replicas.experimental_local_results(parts), axis=0)
    alone = backbones.densenet_bc((8, 8, 3), 10, 4, seed=0)
    expected = alone(images, training=True)
    np.testing.assert_allclose(received, expected, rtol=1e-4, atol=1e-5)
    contracts.assert_same(model.get_weights(), alone.get_weights(), rtol=1e-4, atol=1e-5)
