"""The plain classifier and MIMO: loss, decay, logs, round trips."""

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from s2d_tf import backbones, models
from tests import contracts
from tests.models.tiny import CLASSES, IMAGES, LABELS, PAIR_LABELS, PAIRS
from tests.models.tiny import compiled as classifier


def cross_entropy(logits, labels):
    return -scipy.special.log_softmax(np.float64(logits), axis=-1)[np.arange(len(labels)), labels]


def numpy_logits(model, images):
    """What a one-head model computes, layer by layer."""
    x = (np.float64(images) - 128.0) / 64.0
    kernel, bias, head_kernel, head_bias = (np.float64(w) for w in model.get_weights())
    return np.tanh(x.reshape(len(x), -1) @ kernel + bias) @ head_kernel[0] + head_bias[0]


def test_logits_equal_numpy_for_both_pixel_types():
    model = classifier()
    expected = numpy_logits(model, IMAGES)
    np.testing.assert_allclose(model(IMAGES), expected, atol=1e-5)
    np.testing.assert_allclose(model(IMAGES.astype(np.float32)), expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(IMAGES, verbose=0), expected, atol=1e-5)
    np.testing.assert_allclose(tf.function(model)(tf.constant(IMAGES)), expected, atol=1e-5)


def test_weight_decay_reaches_batch_norm_and_is_not_in_the_evaluation():
    network = backbones.wide_resnet([8, 8, 1], depth=10, width=1, seed=0)
    model = models.Classifier(network, CLASSES, mean=[128.0], stddev=[64.0], weight_decay=0.1)
    model.compile()
    variables = model.trainable_variables
    assert any("bn" in v.path and "gamma" in v.path for v in variables)
    expected = 0.05 * sum((v.numpy() ** 2).sum() for v in variables)
    logits = model(IMAGES)
    training, evaluation = (
        model.compute_loss(IMAGES, tf.constant(LABELS), logits, training=training)
        for training in (True, False)
    )
    np.testing.assert_allclose(training - evaluation, expected, rtol=1e-5)


def test_sgd_step_with_decay_momentum_and_nesterov_equals_numpy():
    model = classifier(weight_decay=0.2)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), run_eagerly=True)
    weights = [np.float64(w) for w in model.get_weights()]
    velocity = [0.0] * 4
    for _ in range(2):
        x = ((np.float64(IMAGES) - 128.0) / 64.0).reshape(12, -1)
        hidden = np.tanh(x @ weights[0] + weights[1])
        delta = scipy.special.softmax(hidden @ weights[2][0] + weights[3][0], axis=-1)
        delta = (delta - np.eye(CLASSES)[LABELS]) / 12
        inner = delta @ weights[2][0].T * (1 - hidden**2)
        gradients = [x.T @ inner, inner.sum(0), (hidden.T @ delta)[None], delta.sum(0)[None]]
        gradients = [g + 0.2 * w for g, w in zip(gradients, weights, strict=True)]
        velocity = [0.9 * v - 0.1 * g for v, g in zip(velocity, gradients, strict=True)]
        weights = [
            w + 0.9 * v - 0.1 * g for w, v, g in zip(weights, velocity, gradients, strict=True)
        ]
        model.train_on_batch(IMAGES, LABELS)
    contracts.assert_same(model.get_weights(), weights, atol=2e-6)


def test_sample_weight_two_is_an_example_twice():
    model = classifier(2)

    def total(index, weights):
        logits, labels = model(PAIRS[index], training=True), tf.constant(PAIR_LABELS[index])
        # Keras divides by the number of rows, not by the sum of weights
        return len(index) * model.compute_loss(None, labels, logits, tf.constant(weights))

    weighted = total([0, 1, 2, 3], [1.0, 2.0, 1.0, 1.0])
    np.testing.assert_allclose(weighted, total([0, 1, 1, 2, 3], [1.0] * 5), rtol=1e-5)


def test_the_loss_of_mimo_is_the_sum_over_heads_and_prediction_tiles_the_image():
    model = classifier(2)
    logits = model(PAIRS, training=True)
    assert logits.shape == (2, 12, CLASSES)
    loss = model.compute_loss(PAIRS, tf.constant(PAIR_LABELS), logits)
    heads = [cross_entropy(logits[h], PAIR_LABELS[:, h]).mean() for h in range(2)]
    np.testing.assert_allclose(loss, sum(heads), rtol=1e-5)
    assert abs(heads[0] - heads[1]) > 1e-3, "else an exchanged head would not show"
    logits = model(IMAGES)
    np.testing.assert_allclose(logits, model(np.stack([IMAGES, IMAGES], axis=1)), atol=1e-6)
    found = model.predict(IMAGES, batch_size=5, verbose=0)
    np.testing.assert_allclose(found, tf.transpose(logits, [1, 0, 2]), atol=1e-6)
    np.testing.assert_allclose(model.predict_members(IMAGES)[1], logits, atol=1e-6)
    evaluated = model.evaluate(IMAGES, LABELS, verbose=0, return_dict=True)
    expected = sum(cross_entropy(logits[h], LABELS).mean() for h in range(2))
    np.testing.assert_allclose(evaluated["loss"], expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "num_heads"),
    [(models.Classifier, 2), (models.S2DClassifier, 1), (models.S2DClassifier, 2)],
)
def test_keras_file_round_trip_continues_the_run(kind, num_heads):
    model = classifier(num_heads, kind, weight_decay=1e-3)
    data = (IMAGES, LABELS) if num_heads == 1 else (PAIRS, PAIR_LABELS)
    settings = {"batch_size": 4, "shuffle": False, "verbose": 0}
    model.fit(*data, **settings)
    twin = contracts.run_saving_test(model, IMAGES)
    assert twin.optimizer.momentum == 0.9
    # Momentum and step go on where they were. Like Keras' own layers, the noise starts again from
    # its seed; only a run's checkpoints keep its state.
    twin.run_eagerly = True
    for state, held in zip(twin.variables, model.variables, strict=True):
        state.assign(held)
    assert twin.fit(*data, **settings).history == model.fit(*data, **settings).history
    contracts.assert_same(twin.get_weights(), model.get_weights())


@pytest.mark.parametrize("kind", [models.Classifier, models.S2DClassifier])
def test_mixed_precision_trains_finite_and_answers_in_float32(kind):
    keras.config.set_dtype_policy("mixed_float16")
    model = classifier(kind=kind, weight_decay=1e-4)
    assert model.backbone.layers[-1].compute_dtype == "float16"
    history = model.fit(IMAGES, LABELS, batch_size=6, verbose=0).history
    answer = model.predict_uncertainty(IMAGES)
    assert model(IMAGES).dtype == tf.float32
    assert all(value.dtype == np.float32 for key, value in answer.items() if key != "label")
    for values in (*history.values(), *model.get_weights(), *answer.values()):
        assert np.isfinite(values).all()


def test_user_metrics_and_loss_are_kept():
    model = classifier()
    model.compile(
        "sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
        metrics=[keras.metrics.SparseTopKCategoricalAccuracy(2, name="top2")],
        run_eagerly=True,
    )
    logs = model.evaluate(IMAGES, LABELS, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "top2"}
    logits = model(IMAGES).numpy()
    np.testing.assert_allclose(logs["loss"], cross_entropy(logits, LABELS).sum(), rtol=1e-5)
