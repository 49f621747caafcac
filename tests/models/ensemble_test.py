"""Deep ensembles and Monte Carlo dropout."""

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
        x = keras.layers.ReLU()(BatchNormalization()(x))
        x = layers.Dropout(dropout, seed=10 * seed + index)(x)
    backbone = keras.Model(images, keras.layers.Flatten()(x))
    return kind(backbone, classes, mean=[128.0], stddev=[64.0], num_heads=heads, seed=seed)


@pytest.fixture(scope="module")
def members():
    return [network(seed) for seed in range(2)]


@pytest.fixture(scope="module")
def dropped():
    return network(dropout=0.3)


def test_ensemble_of_one_is_the_single_model(members):
    single = models.Ensemble(members[:1])
    assert single.num_members == 1
    np.testing.assert_array_equal(
        single.predict_members(IMAGES)[1], members[0].predict_members(IMAGES)[1]
    )
    alone, together = members[0].predict_uncertainty(IMAGES), single.predict_uncertainty(IMAGES)
    for key in alone:
        np.testing.assert_array_equal(together[key], alone[key])


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
        with pytest.raises(ValueError, match=f"of the same {word}") as error:
            models.Ensemble([members[0], other])
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="at least one predictor"):
        models.Ensemble([])


def test_monte_carlo_dropout_is_deterministic_and_batch_independent(dropped):
    contracts.run_predictor_test(lambda: models.MonteCarloDropout(network(dropout=0.3), 4), IMAGES)
    model = models.MonteCarloDropout(dropped, 4)
    assert (model.kind, model.num_members) == ("dirichlet", 4)
    everything = model.predict_members(IMAGES)[1]
    reversed_order = model.predict_members(IMAGES[::-1])[1][:, ::-1]
    np.testing.assert_allclose(reversed_order, everything, atol=1e-6)
    for i in range(4):
        for j in range(i):
            assert np.abs(everything[i] - everything[j]).max() > 1e-3, "members differ"


def test_monte_carlo_changes_only_dropout(dropped):
    """With the masks undone by hand, batch norm in inference mode gives the plain answer."""
    plain = dropped.predict_members(IMAGES)[1][0]
    state = [v.numpy().copy() for v in dropped.variables]
    model = models.MonteCarloDropout(dropped, 3)
    stack = model.predict_members(IMAGES)[1]
    for before, variable in zip(state, dropped.variables, strict=True):
        np.testing.assert_array_equal(before, variable)  # neither statistics nor seeds moved
    assert np.abs(stack - plain).max() > 1e-3
    np.testing.assert_array_equal(dropped.predict_members(IMAGES)[1][0], plain)
    rates = [layer for layer in dropped.backbone.layers if isinstance(layer, layers.Dropout)]
    held = [layer.rate for layer in rates]
    try:
        for layer in rates:
            layer.rate = 0
        np.testing.assert_allclose(
            models.MonteCarloDropout.member_logits(model, IMAGES), [plain] * 3, atol=1e-5
        )
    finally:
        for layer, rate in zip(rates, held, strict=True):
            layer.rate = rate


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


def test_monte_carlo_without_dropout_or_samples_is_refused(members, dropped):
    with pytest.raises(ValueError, match="backbone with dropout above 0") as error:
        models.MonteCarloDropout(members[0])
    assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="num_samples: expected at least 1"):
        models.MonteCarloDropout(dropped, 0)


def test_products_of_choices_need_no_code_of_their_own():
    """S2D, MIMO, Monte Carlo dropout and an ensemble at once."""
    mimo = network(dropout=0.3, heads=2)
    product = models.Ensemble([models.MonteCarloDropout(mimo, 2), mimo])
    assert product.num_members == 6
    answer = product.predict_uncertainty(IMAGES)
    np.testing.assert_allclose(answer["total"], answer["data"] + answer["knowledge"], atol=1e-6)
    assert np.all(answer["knowledge"] > 0)
