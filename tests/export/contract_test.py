"""An exported model takes what its model was trained on, and nothing that only looks like it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, models

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, [12, 8, 8, 1]).astype(np.uint8)
LABELS = np.arange(12) % 3


def signatures(model, folder):
    return tf.saved_model.load(str(export.save(model, folder))).signatures


@pytest.fixture(scope="module")
def source():
    flat = [keras.Input([8, 8, 1]), keras.layers.Flatten(), keras.layers.Dense(3)]
    return keras.Sequential(flat)


def cast(source, inputs):
    model = models.S2DClassifier.from_classifier(source, seed=0)
    model.compile("sgd", run_eagerly=True)
    model.fit(inputs, LABELS, verbose=0)
    return model


def test_a_model_of_scaled_pixels_takes_no_raw_ones(source, tmp_path):
    model = cast(source, np.float32(PIXELS / 255))
    assert model.contract.image.range == (0, 1)
    made = signatures(model, tmp_path / "scaled")
    assert list(made) == ["serving_default"]
    (spec,) = made["serving_default"].structured_input_signature[1].values()
    assert spec.dtype == tf.float32
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"pixels in \[0, 1\], received val"):
        made["serving_default"](images=tf.constant(PIXELS, tf.float32))
    answer = made["serving_default"](images=tf.constant(PIXELS / 255, tf.float32))
    expected = model.predict_uncertainty(np.float32(PIXELS / 255))
    np.testing.assert_allclose(answer["knowledge_uncertainty"], expected["knowledge"], rtol=1e-4)
    with pytest.warns(UserWarning, match=r"from 0 to 1, received 0 to 255\. Scale them"):
        model.predict_uncertainty(PIXELS)


def test_a_model_of_raw_pixels_takes_them_in_three_ways_and_within_their_range(source, tmp_path):
    model = cast(source, PIXELS)
    assert model.contract.image.range == (0, 255)
    made = signatures(model, tmp_path / "raw")
    assert set(made) == {"serving_default", "serve_float", "serve_encoded"}
    for value in (1e30, -1.0, 300.0, np.nan, -np.inf):
        pixels = PIXELS.astype(np.float32)
        pixels[3, 2, 1, 0] = value
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"expected pixels in \[0, 255\]"):
            made["serve_float"](images=tf.constant(pixels))
    assert made["serve_float"](images=tf.constant(PIXELS, tf.float32))["label"].shape == (12,)


def test_a_model_of_which_nobody_said_the_range_takes_numbers(source, tmp_path):
    made = signatures(models.S2DClassifier.from_classifier(source), tmp_path / "unknown")
    assert list(made) == ["serving_default"]
    pixels = tf.constant(PIXELS, tf.float32)
    assert made["serving_default"](images=pixels)["label"].shape == (12,)
    with pytest.raises(tf.errors.InvalidArgumentError, match="images: expected pixels"):
        made["serving_default"](images=pixels * np.nan)


@pytest.mark.parametrize("name", ["a column", "a-column", "a.column", "1st", "größe"])
def test_names_that_no_signature_can_have_are_rejected(name):
    inputs = {name: keras.Input([2], name=name), "b": keras.Input([1], name="b")}
    backbone = keras.Model(inputs, keras.layers.Concatenate()(list(inputs.values())))
    with pytest.raises(ValueError, match=rf"backbone: expected inputs .*, received \['{name}'\]"):
        models.Classifier(backbone, 3)
