"""Deep ensembles, Monte Carlo dropout and SWAG-Diag."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import layers, models
from s2d_tf.backbones.batch_norm import BatchNormalization
from tests import contracts

CLASSES = 3
IMAGES = np.random.default_rng(0).integers(0, 256, [9, 8, 8, 1]).astype(np.uint8)


def network(seed=0, dropout=0.0, kind=models.S2DClassifier, heads=1, classes=CLASSES, size=8):
    images = keras.Input([size, size, heads])
    x = images
    for index in range(2):
        initializer = keras.initializers.HeNormal(seed=10 * seed + index)
        x = keras.layers.Conv2D(4, 3, strides=2, kernel_initializer=initializer)(x)
        x = keras.layers.ReLU()(BatchNormalization(momentum=0.9)(x))
        x = layers.Dropout(dropout, seed=10 * seed + index)(x)
    backbone = keras.Model(images, keras.layers.Flatten()(x))
    return kind(backbone, classes, mean=[128.0], stddev=[64.0], num_heads=heads, seed=seed)


@pytest.fixture(scope="module")
def members():
    return [network(seed) for seed in range(2)]


@pytest.fixture(scope="module")
def dropped():
    return network(dropout=0.3)


def test_ensemble_stacks_its_members_in_order(members):
    ensemble = models.Ensemble(members)
    kind, stack = ensemble.predict_members(IMAGES)
    assert (kind, ensemble.num_members, stack.shape) == ("dirichlet", 2, (2, 9, CLASSES))
    for found, member in zip(stack, members, strict=True):
        np.testing.assert_allclose(found, member(IMAGES), atol=1e-5)
    assert ensemble.count_params() == 2 * members[0].count_params()
    np.testing.assert_allclose(ensemble(IMAGES), stack, atol=1e-5)


def test_members_that_do_not_agree_are_refused(members):
    for other, word in (
        (network(kind=models.Classifier), "kind"),
        (network(classes=4), "num_classes"),
        (network(size=9), "inputs"),
    ):
        with pytest.raises(ValueError, match=f"of the same {word}"):
            models.Ensemble([members[0], other])


def test_nothing_to_draw_is_refused(members, dropped):
    for call, message in (
        (lambda: models.Ensemble([]), "at least one predictor"),
        (lambda: models.MonteCarloDropout(members[0]), "backbone with dropout above 0"),
        (lambda: models.MonteCarloDropout(dropped, 0), "num_samples: expected at least 1"),
        (lambda: models.SWAG(members[0], 0), "num_samples: expected at least 1"),
        (lambda: models.SWAG(members[0], 1).recompute_statistics([]), "batches: expected at"),
    ):
        with pytest.raises(ValueError, match=message) as error:
            call()
        assert "\n" not in str(error.value)


def test_monte_carlo_equals_masks_applied_by_hand():
    images = keras.Input([8, 8, 1])
    features = layers.Dropout(0.5, seed=3)(keras.layers.Flatten()(images))
    model = models.Classifier(keras.Model(images, features), CLASSES, seed=0)
    stack = models.MonteCarloDropout(model, 3).predict_members(IMAGES)[1]
    kernel, bias = model.head.kernel.numpy()[0], model.head.bias.numpy()[0]
    flat = IMAGES.reshape(9, -1).astype(np.float32)
    for member in range(3):
        kept = tf.random.stateless_uniform([1, 64], [3, member]).numpy() >= 0.5
        np.testing.assert_allclose(stack[member], (flat * kept * 2) @ kernel + bias, rtol=1e-3)


def spread(swag, value):
    for stddev in swag.stddev:
        stddev.assign(tf.fill(stddev.shape, value))


def batches(*sizes):
    return [tf.constant(part) for part in np.split(IMAGES, np.cumsum(sizes)[:-1])]


def test_moments_become_deviations_and_rounding_below_zero_a_deviation_of_zero():
    model = network()
    swag = models.SWAG(model, 1)
    path = np.random.default_rng(1).normal(size=[6, *model.head.kernel.shape])
    mean = [w.numpy() for w in model.trainable_variables]
    square = [np.square(w) * (1 - 1e-7) - 1e-12 for w in mean]
    index = [w is model.head.kernel for w in model.trainable_variables].index(True)
    mean[index], square[index] = path.mean(axis=0), np.square(path).mean(axis=0)
    swag.set_moments(mean, square)
    np.testing.assert_allclose(model.head.kernel, path.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(swag.stddev[index], path.std(axis=0), rtol=1e-5)
    for i, stddev in enumerate(swag.stddev):
        assert np.all(stddev.numpy() == 0) == (i != index)


def test_draws_have_the_moments_and_differ_by_sample():
    model = network()
    swag = models.SWAG(model, 2, seed=4)
    spread(swag, 0.1)
    mean, *draws = (
        np.concatenate([np.ravel(weight) for weight in weights])
        for weights in (model.trainable_variables, *map(swag.drawn_weights, (0, 1, 1)))
    )
    np.testing.assert_array_equal(draws[1], draws[2])
    noise = [(draw - mean) / 0.1 for draw in draws[:2]]
    size = mean.size
    for values in noise:
        assert abs(values.mean()) < 5 / size**0.5
        assert abs(values.std() - 1) < 5 / (2 * size) ** 0.5
    assert abs(np.corrcoef(noise)[0, 1]) < 5 / size**0.5


@pytest.mark.parametrize("kind", [models.Classifier, models.S2DClassifier])
def test_statistics_are_those_of_the_drawn_network(kind):
    """Oracle: set the drawn weights, run batches in training mode, average what batch norm saw."""
    model = network(kind=kind)
    swag = models.SWAG(model, 2, seed=1)
    spread(swag, 0.02)
    before = [v.numpy().copy() for v in model.variables]
    swag.recompute_statistics(batches(4, 3, 2))
    contracts.assert_same(model.variables, before)  # the mean network is left as it was
    twin = network(kind=kind)
    norms = [layer for layer in twin._flatten_layers() if hasattr(layer, "moving_mean")]
    for sample in range(2):
        drawn = zip(twin.trainable_variables, swag.drawn_weights(sample), strict=True)
        for variable, value in drawn:
            variable.assign(value)
        sums = 0.0
        for batch in batches(4, 3, 2):
            for norm in norms:
                norm.momentum = 0.0
            twin.features(batch, training=True)
            seen = [v.numpy() for n in norms for v in (n.moving_mean, n.moving_variance)]
            sums = sums + len(batch) * np.array([*seen, None], dtype=object)[:-1]
        for statistic, total in zip(swag.statistics, sums, strict=True):
            np.testing.assert_allclose(statistic[sample], total / 9, rtol=1e-4, atol=1e-5)
        # and the answer of the draw is the network with these weights and statistics
        pairs = zip(swag.statistics[::2], swag.statistics[1::2], strict=True)
        for norm, (mean, variance) in zip(norms, pairs, strict=True):
            norm.moving_mean.assign(mean[sample])
            norm.moving_variance.assign(variance[sample])
        found = swag.predict_members(IMAGES)[1][sample]
        np.testing.assert_allclose(found, twin(IMAGES), rtol=1e-3, atol=1e-3)
    momenta = {layer.momentum for layer in model.backbone.layers if hasattr(layer, "moving_mean")}
    assert momenta == {0.9}, "the momentum is put back"
