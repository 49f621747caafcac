"""What a prediction costs, also for models of other inputs than images."""

import keras
import numpy as np
import pytest

from s2d_tf import evaluation, models
from s2d_tf.evaluation.run_evaluation import inference_time

TEXTS = np.array(["red", "green", "red green", ""] * 3, object)


@pytest.fixture(scope="module")
def of_two_inputs():
    texts = keras.Input([], dtype="string", name="texts")
    numbers = keras.Input([2], name="numbers")
    split = keras.layers.TextVectorization(output_mode="multi_hot", vocabulary=["red", "green"])
    features = keras.layers.Concatenate()([split(texts), numbers])
    return models.S2DClassifier(keras.Model({"t": texts, "n": numbers}, features), 2, seed=0)


def test_time_of_any_inputs(of_two_inputs):
    milliseconds, ratio = inference_time(of_two_inputs, of_two_inputs, 4)
    assert milliseconds > 0
    assert 0.02 < ratio < 50


@pytest.mark.parametrize("size", [[6, 5, 3], [None, None, 3]])
def test_time_of_images(size):
    x = keras.Input(size)
    model = models.Classifier(keras.Model(x, keras.layers.GlobalAveragePooling2D()(x)), 2)
    assert inference_time(model, model, 4)[0] > 0


def test_evaluation_of_several_inputs(of_two_inputs):
    x = {"t": TEXTS, "n": np.ones([12, 2], np.float32)}
    y = np.arange(12) % 2
    found = evaluation.evaluate(of_two_inputs, (x, y), name="mine")
    accuracy = (of_two_inputs.predict_uncertainty(x)["probs"].argmax(axis=-1) == y).mean()
    assert found["mine/accuracy"] == pytest.approx(accuracy)
