"""SWAG-Diag: moments, draws and recomputed batch-norm statistics."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import models
from s2d_tf.backbones.batch_norm import BatchNormalization
from s2d_tf.trainers.training import callbacks
from tests import contracts

CLASSES = 3
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, [20, 8, 8, 1]).astype(np.uint8)


def network(kind=models.S2DClassifier, heads=1):
    images = keras.Input([8, 8, heads])
    x = images
    for seed in (1, 2):
        initializer = keras.initializers.HeNormal(seed=seed)
        x = keras.layers.Conv2D(4, 3, strides=2, kernel_initializer=initializer)(x)
        x = keras.layers.ReLU()(BatchNormalization(momentum=0.9)(x))
    backbone = keras.Model(images, keras.layers.Flatten()(x))
    return kind(backbone, CLASSES, mean=[128.0], stddev=[64.0], num_heads=heads, seed=0)


def batches(*sizes):
    parts = np.split(IMAGES, np.cumsum(sizes)[:-1])
    return [tf.constant(part) for part in parts]


def moved(model, count=6, spread=0.05):
    """Weights along an imagined run."""
    rng = np.random.default_rng(1)
    return [
        [w.numpy() + spread * rng.normal(size=w.shape) for w in model.trainable_variables]
        for _ in range(count)
    ]


def test_moments_equal_numpy():
    model = network()
    path = moved(model)
    collector = callbacks.WeightMoments(model.trainable_variables)
    collector.set_model(model)
    for weights in path:
        for variable, value in zip(model.trainable_variables, weights, strict=True):
            variable.assign(value)
        collector.on_epoch_end(0)
    swag = models.SWAG(model, 2)
    swag.set_moments([v.numpy() for v in collector.mean], [v.numpy() for v in collector.square])
    for i, weights in enumerate(zip(*path, strict=True)):
        stack = np.stack(weights).astype(np.float32).astype(np.float64)
        np.testing.assert_allclose(model.trainable_variables[i], stack.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(swag.stddev[i], stack.std(axis=0), rtol=1e-4, atol=1e-7)


def test_rounding_below_zero_becomes_a_zero_deviation():
    model = network()
    swag = models.SWAG(model, 1)
    mean = [w.numpy() for w in model.trainable_variables]
    swag.set_moments(mean, [np.square(w) * (1 - 1e-7) - 1e-12 for w in mean])
    for stddev in swag.stddev:
        assert np.all(stddev.numpy() == 0)


def test_draws_have_the_moments_and_differ_by_sample():
    model = network()
    swag = models.SWAG(model, 2, seed=4)
    for stddev in swag.stddev:
        stddev.assign(tf.fill(stddev.shape, 0.1))
    draws = [np.concatenate([np.ravel(w) for w in swag.drawn_weights(s)]) for s in range(2)]
    mean = np.concatenate([np.ravel(w) for w in model.trainable_variables])
    noise = [(draw - mean) / 0.1 for draw in draws]
    size = len(mean)
    for values in noise:
        assert abs(values.mean()) < 5 / size**0.5
        assert abs(values.std() - 1) < 5 / (2 * size) ** 0.5
    assert abs(np.corrcoef(noise)[0, 1]) < 5 / size**0.5
    again = np.concatenate([np.ravel(w) for w in swag.drawn_weights(1)])
    np.testing.assert_array_equal(again, draws[1])


@pytest.mark.parametrize("kind", [models.Classifier, models.S2DClassifier])
def test_statistics_are_those_of_the_drawn_network(kind):
    """Oracle: set the drawn weights, run batches in training mode, average what batch norm saw."""
    model = network(kind)
    swag = models.SWAG(model, 2, seed=1)
    for stddev in swag.stddev:
        stddev.assign(tf.fill(stddev.shape, 0.02))
    before = [v.numpy().copy() for v in model.variables]
    swag.recompute_statistics(batches(8, 8, 4))
    for held, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(held, variable)  # the mean network is left as it was
    twin = network(kind)
    norms = [layer for layer in twin._flatten_layers() if hasattr(layer, "moving_mean")]
    for sample in range(2):
        for variable, value in zip(
            twin.trainable_variables, swag.drawn_weights(sample), strict=True
        ):
            variable.assign(value)
        sums = 0.0
        for batch in batches(8, 8, 4):
            for norm in norms:
                norm.momentum = 0.0
            twin.features(batch, training=True)
            seen = [v.numpy() for n in norms for v in (n.moving_mean, n.moving_variance)]
            sums = sums + len(batch) * np.array([*seen, None], dtype=object)[:-1]
        for statistic, total in zip(swag.statistics, sums, strict=True):
            np.testing.assert_allclose(statistic[sample], total / 20, rtol=1e-4, atol=1e-5)
        # and the answer of the draw is the network with these weights and statistics
        for norm, mean, variance in zip(
            norms, swag.statistics[::2], swag.statistics[1::2], strict=True
        ):
            norm.moving_mean.assign(mean[sample])
            norm.moving_variance.assign(variance[sample])
        np.testing.assert_allclose(
            swag.predict_members(IMAGES)[1][sample], twin(IMAGES), rtol=1e-3, atol=1e-3
        )
    momenta = {layer.momentum for layer in model.backbone.layers if hasattr(layer, "moving_mean")}
    assert momenta == {0.9}, "the momentum is put back"


def test_without_deviation_every_member_is_the_model_with_recomputed_statistics():
    model = network()
    swag = models.SWAG(model, 3)
    swag.recompute_statistics(batches(20))
    stack = swag.predict_members(IMAGES)[1]
    assert (swag.kind, swag.num_members, stack.shape) == ("dirichlet", 3, (3, 20, CLASSES))
    # one batch of everything: inference with these statistics is the training pass itself
    expected = model(IMAGES, training=True)["student_logits"]
    np.testing.assert_allclose(stack, [expected] * 3, rtol=1e-3, atol=2e-4)


def test_weights_file_needs_no_training_data():
    swag = models.SWAG(network(), 2)
    for stddev in swag.stddev:
        stddev.assign(tf.fill(stddev.shape, 0.02))
    swag.recompute_statistics(batches(20))
    made = iter([swag, models.SWAG(network(), 2)])
    contracts.run_predictor_test(lambda: next(made), IMAGES)
    assert len({v.path for v in swag.stddev}) == len(swag.stddev)


def test_no_samples_and_no_images_are_refused():
    with pytest.raises(ValueError, match="num_samples: expected at least 1"):
        models.SWAG(network(), 0)
    with pytest.raises(ValueError, match="batches: expected at least one") as error:
        models.SWAG(network(), 1).recompute_statistics([])
    assert "\n" not in str(error.value)
