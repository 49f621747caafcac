"""The streaming calibration metric: a Keras metric that equals the exact one."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import metrics
from tests import contracts


@pytest.fixture
def predictions():
    rng = np.random.default_rng(0)
    logits = (3.0 * rng.normal(size=(150, 5))).astype("float32")
    probs = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    return logits, probs, rng.integers(0, 5, 150)


@pytest.mark.parametrize("from_logits", [False, True])
@pytest.mark.parametrize("batch_size", [1, 7, 40])
def test_streaming_equals_the_whole(predictions, from_logits, batch_size):
    logits, probs, labels = (part[:40] for part in predictions)
    metric = metrics.ExpectedCalibrationError(from_logits=from_logits)
    for i in range(0, 40, batch_size):
        batch = slice(i, i + batch_size)
        metric.update_state(labels[batch, None], (logits if from_logits else probs)[batch])
    expected = metrics.expected_calibration_error(probs, labels)
    assert float(metric.result()) == pytest.approx(expected, abs=2e-6)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_integer_weights_equal_repeated_examples(predictions):
    _, probs, labels = predictions
    weights = np.random.default_rng(1).integers(0, 4, 150)
    metric = metrics.ExpectedCalibrationError(num_bins=10)
    metric.update_state(labels, probs, sample_weight=weights)
    expected = metrics.expected_calibration_error(
        np.repeat(probs, weights, axis=0), np.repeat(labels, weights), num_bins=10
    )
    assert float(metric.result()) == pytest.approx(expected, abs=2e-6)


def test_several_heads_count_as_examples(predictions):
    _, probs, labels = predictions
    metric = metrics.ExpectedCalibrationError()
    metric.update_state(labels.reshape(75, 2), probs.reshape(75, 2, 5), sample_weight=np.ones(75))
    expected = metrics.expected_calibration_error(probs, labels)
    assert float(metric.result()) == pytest.approx(expected, abs=2e-6)


def test_config_round_trip():
    metric = metrics.ExpectedCalibrationError(
        num_bins=7, from_logits=True, name="c", dtype="float64"
    )
    again = contracts.run_serialization_test(metric)
    assert (again.num_bins, again.from_logits, again.name) == (7, True, "c")
    with pytest.raises(ValueError, match="num_bins: expected an integer"):
        metrics.ExpectedCalibrationError(num_bins=0)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_same_in_eager_and_in_a_graph(predictions, jit_compile):
    logits, _, labels = predictions
    eager, graph = (metrics.ExpectedCalibrationError(from_logits=True) for _ in range(2))
    eager.update_state(labels, logits)
    signature = [tf.TensorSpec([None], tf.int64), tf.TensorSpec([None, 5], tf.float32)]

    @tf.function(input_signature=signature, jit_compile=jit_compile)
    def update(y_true, y_pred):
        graph.update_state(y_true, y_pred)

    update(labels, logits)
    assert float(graph.result()) == pytest.approx(float(eager.result()), rel=1e-6)


def test_in_fit_on_one_and_two_replicas(predictions):
    logits, probs, labels = predictions
    logits, probs, labels = logits[:128], probs[:128], labels[:128]
    devices = [d.name for d in tf.config.list_logical_devices("CPU")]
    results = []
    for strategy in (tf.distribute.get_strategy(), _two_replicas(devices)):
        if strategy is None:
            pytest.skip("needs two logical CPU devices, configured before TensorFlow starts")
        with strategy.scope():
            model = keras.Sequential([keras.layers.Input((5,)), keras.layers.Identity()])
            metric = metrics.ExpectedCalibrationError(from_logits=True)
            model.compile(loss=keras.losses.SparseCategoricalCrossentropy(True), metrics=[metric])
        data = tf.data.Dataset.from_tensor_slices((logits, labels)).batch(32)
        results.append(model.evaluate(data, verbose=0, return_dict=True)["ece"])
    assert results[0] == pytest.approx(metrics.expected_calibration_error(probs, labels), abs=2e-6)
    assert results[1] == pytest.approx(results[0], abs=1e-6)


def _two_replicas(devices):
    return tf.distribute.MirroredStrategy(devices[:2]) if len(devices) > 1 else None
