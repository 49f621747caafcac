"""Casting Keras classifiers to S2D."""

import keras
import numpy as np
import pytest
import scipy.special

from s2d_tf import models

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, [6, 8, 8, 1]).astype(np.float32)
LABELS = np.arange(6) % 3


def functional(activation=None, use_bias=True):
    images = keras.Input([8, 8, 1])
    x = keras.layers.Rescaling(1 / 255)(images)
    x = keras.layers.Conv2D(4, 3, activation="relu")(x)
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.BatchNormalization()(x))
    outputs = keras.layers.Dense(3, activation, use_bias=use_bias, bias_initializer="ones")(x)
    return keras.Model(images, outputs)


def sequential():
    return keras.Sequential(
        [keras.Input([8, 8, 1]), keras.layers.Flatten(), keras.layers.Dense(3, "softmax")]
    )


@pytest.mark.parametrize(
    "make",
    [functional, lambda: functional("softmax"), lambda: functional(use_bias=False), sequential],
    ids=["linear", "softmax", "no_bias", "sequential"],
)
def test_predictions_are_unchanged(make):
    source = make()
    source_probs = source.predict(IMAGES, verbose=0)
    if source.layers[-1].activation is keras.activations.linear:
        source_probs = scipy.special.softmax(source_probs, axis=-1)
    model = models.S2DClassifier.from_classifier(source, num_samples=3, seed=0)
    np.testing.assert_allclose(model.predict_uncertainty(IMAGES)["probs"], source_probs, rtol=1e-5)
    assert model.image_shape == (8, 8, 1)
    assert model.mean is None, "nothing is added in front of the given model"
    assert model.noise.num_samples == 3


def test_it_trains_and_keeps_the_number_of_parameters(tmp_path):
    source = functional()
    model = models.S2DClassifier.from_classifier(source, seed=0)
    assert model.count_params() == source.count_params()
    assert len(model.trainable_variables) == len(source.trainable_variables)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = model.backbone.get_weights()[0].copy()
    assert np.isfinite(model.fit(IMAGES, LABELS, verbose=0).history["loss"][0])
    assert not np.array_equal(before, model.backbone.get_weights()[0])
    model.save(tmp_path / "cast.keras")
    twin = keras.models.load_model(tmp_path / "cast.keras")
    np.testing.assert_array_equal(twin(IMAGES), model(IMAGES))


def test_freeze_trains_the_linear_layer_only():
    model = models.S2DClassifier.from_classifier(functional(), freeze=True, seed=0)
    assert [v.path.split("/")[-2] for v in model.trainable_variables] == ["head", "head"]
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = [w.copy() for w in model.backbone.get_weights()]
    kernel = model.head.kernel.numpy().copy()
    model.fit(IMAGES, LABELS, verbose=0)
    for a, b in zip(before, model.backbone.get_weights(), strict=True):
        np.testing.assert_array_equal(a, b)  # batch-norm statistics too
    assert not np.array_equal(kernel, model.head.kernel)


def test_layers_that_were_frozen_stay_frozen():
    source = functional()
    source.layers[2].trainable = False
    model = models.S2DClassifier.from_classifier(source)
    assert not source.layers[2].trainable
    assert len(model.trainable_variables) == len(source.trainable_variables)


def test_an_image_size_that_is_open_stays_open():
    images = keras.Input([None, None, 1])
    x = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(4, 3)(images))
    model = models.S2DClassifier.from_classifier(keras.Model(images, keras.layers.Dense(3)(x)))
    for size in (8, 10):
        images = np.zeros([2, size, size, 1], np.float32)
        assert model.predict_uncertainty(images)["probs"].shape == (2, 3)
    with pytest.raises(ValueError, match="received the shape"):
        model.predict_uncertainty(np.zeros([2, 8, 8, 3], np.float32))


def refused():
    images = keras.Input([8, 8, 1])
    flat = keras.layers.Flatten()(images)
    dense = keras.layers.Dense(3)

    class Subclassed(keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = keras.layers.Dense(3)

        def call(self, x):
            return self.dense(keras.ops.reshape(x, [-1, 64]))

    subclassed = Subclassed()
    subclassed(IMAGES)
    return {
        "sigmoid": (
            keras.Model(images, keras.layers.Dense(3, "sigmoid")(flat)),
            "linear or softmax activation, received 'sigmoid'",
        ),
        "activation_layer": (
            keras.Model(images, keras.layers.Softmax()(keras.layers.Dense(3)(flat))),
            "last layer is keras.layers.Dense, received Softmax",
        ),
        "convolution": (
            keras.Model(images, keras.layers.Conv2D(3, 1)(images)),
            "last layer is keras.layers.Dense, received Conv2D",
        ),
        "per_pixel": (
            keras.Model(images, keras.layers.Dense(3)(images)),
            "pool or flatten first",
        ),
        "two_outputs": (
            keras.Model(images, [dense(flat), flat]),
            "one output, received 2",
        ),
        "not_built": (
            keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)]),
            "built functional or sequential",
        ),
        "subclassed": (subclassed, "built functional or sequential"),
        "layer": (keras.layers.Dense(3), "keras.Model, received Dense"),
    }


@pytest.mark.parametrize(
    "name",
    [
        "sigmoid", "activation_layer", "convolution", "per_pixel", "two_outputs",
        "not_built", "subclassed", "layer",
    ],
)  # fmt: skip
def test_other_heads_are_refused(name):
    model, message = refused()[name]
    with pytest.raises(ValueError, match=message) as error:
        models.S2DClassifier.from_classifier(model)
    assert "\n" not in str(error.value)


@pytest.mark.slow
def test_a_model_of_keras_applications():
    source = keras.applications.MobileNetV2(
        input_shape=(32, 32, 3), alpha=0.35, weights=None, classes=10
    )
    images = RNG.uniform(-1, 1, [3, 32, 32, 3]).astype(np.float32)
    model = models.S2DClassifier.from_classifier(source, freeze=True)
    expected = source(images, training=False)
    np.testing.assert_allclose(model.predict_uncertainty(images)["probs"], expected, rtol=1e-4)
    assert len(model.trainable_variables) == 2
    assert "means nothing" in " ".join(models.S2DClassifier.from_classifier.__doc__.split())
    keras.backend.clear_session()
