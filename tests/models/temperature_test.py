"""A temperature that follows the calibration of held-out examples."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import metrics, models
from s2d_tf.trainers import training
from s2d_tf.zoo import recipes
from tests import contracts

CLASSES = 3


def table(n, seed):
    """Two numbers, three overlapping classes."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, n)
    centers = np.array([[0.0, 1.0], [1.0, -0.5], [-1.0, -0.5]])
    images = 128 + 20 * (centers[labels] + rng.normal(size=(n, 2)))
    return images.reshape(n, 1, 2, 1).astype(np.float32), labels


def fitted(scale, epochs=3, temperature="auto", held_out=None, **kwargs):
    """A model whose logits start `scale` times too large, and hardly learn."""
    inputs = keras.Input([1, 2, 1])
    backbone = keras.Model(inputs, keras.layers.Flatten()(inputs))
    model = models.S2DClassifier(
        backbone, CLASSES, mean=[128.0], stddev=[20.0], temperature=temperature, seed=0
    )
    model.head.kernel.assign(scale * np.array([[[0.0, 1.0, -1.0], [1.0, -0.5, -0.5]]]))
    model.compile(keras.optimizers.SGD(1e-6))
    held_out = held_out or table(400, 1)
    history = model.fit(
        *table(400, 0), epochs=epochs, verbose=0, validation_data=held_out, **kwargs
    )
    return model, history, held_out


@pytest.mark.parametrize("scale", [0.5, 4.0])
def test_it_is_what_calibrates_the_network(scale):
    model, history, (inputs, labels) = fitted(scale)
    log_probs = np.log(model.predict_uncertainty(inputs)["probs"].astype(np.float64))
    found = metrics.fit_temperature(log_probs, labels)
    assert (found > 1) == (scale > 1), "over-confidence needs a softer teacher"
    np.testing.assert_allclose(history.history["temperature"], [found] * 3, rtol=1e-2)
    np.testing.assert_allclose(float(model.teacher_temperature), found, rtol=1e-4)


def test_held_out_examples_come_in_any_form():
    inputs, labels = table(400, 1)
    one_hot = inputs, keras.utils.to_categorical(labels, CLASSES)
    dataset = tf.data.Dataset.from_tensor_slices((inputs, labels)).batch(64)
    found = {float(fitted(4.0, 1, held_out=h)[0].teacher_temperature) for h in (one_hot, dataset)}
    expected = float(fitted(4.0, 1)[0].teacher_temperature)
    np.testing.assert_allclose(list(found), expected, rtol=1e-5)


def test_the_target_is_softened_by_it():
    logits = np.random.default_rng(0).normal(size=(4, 5, CLASSES)).astype(np.float32)
    auto, _, _ = fitted(4.0, epochs=1)
    fixed, _, _ = fitted(4.0, epochs=1, temperature=float(auto.teacher_temperature))
    np.testing.assert_allclose(auto.student_target(logits), fixed.student_target(logits), rtol=1e-5)


def test_without_held_out_examples_it_is_an_error():
    model, _, _ = fitted(1.0, epochs=1)
    with pytest.raises(ValueError, match=r"validation_data: expected held-out .*'auto', received"):
        model.fit(*table(10, 0))
    with pytest.raises(ValueError, match="temperature: expected 'auto' or a number above 0"):
        fitted(1.0, temperature=0.0)


def test_it_is_part_of_a_saved_model():
    model, _, (inputs, _) = fitted(4.0, epochs=1)
    loaded = contracts.run_saving_test(model, inputs)
    assert loaded.get_config()["temperature"] == "auto"
    assert float(loaded.teacher_temperature) == float(model.teacher_temperature) != 1.0


def test_a_recipe_holds_images_out_for_it(tmp_path):
    recipe = recipes.override(
        recipes.resolve("wrn_10_2_s2.s2d.digits"),
        ["model.temperature=auto", "data.held_out=100"],
        epochs=2,
    ).replace(arguments={"depth": 10, "width": 1})
    settings = training.Settings(strategy="one_device", verbose=0)
    run = training.train(recipe, tmp_path / "run", 0, settings)
    header, *rows = (run.directory / "log.csv").read_text().splitlines()
    column = header.split(",").index("temperature")
    assert len({row.split(",")[column] for row in rows} - {"1.0"}) == 2
    assert recipe == run.recipe
    without = recipe.replace(data={"held_out": 0})
    with pytest.raises(ValueError, match="expected held-out examples"):
        training.train(without, tmp_path / "other", 0, settings)
