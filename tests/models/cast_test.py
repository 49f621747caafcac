"""Casting Keras classifiers to S2D."""

import pathlib

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from s2d_tf import models
from tests import contracts

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


def headed(*layers):
    """A small network on images that ends in these layers."""
    pooled = keras.layers.GlobalAveragePooling2D(keepdims=True)
    return keras.Sequential([keras.Input([8, 8, 1]), keras.layers.Rescaling(0.01), pooled, *layers])


L = keras.layers


class Subclassed(keras.Model):
    def __init__(self):
        super().__init__()
        self.features = keras.Sequential([L.Rescaling(0.01), L.Flatten()])
        self.dense = L.Dense(3, "softmax", bias_initializer="ones")

    def call(self, inputs):
        return self.dense(self.features(inputs))


def functional_of_subclassed():
    """What the error for subclassed models says."""
    model, x = Subclassed(), keras.Input([8, 8, 1])
    return keras.Model(x, model.dense(model.features(x)))


HEADS = {
    "subclassed": functional_of_subclassed,
    "linear": functional,
    "softmax": lambda: functional("softmax"),
    "no_bias": lambda: functional(use_bias=False),
    "sequential": sequential,
    "activation": lambda: headed(L.Flatten(), L.Dense(3), L.Activation("softmax", dtype="float32")),
    "softmax_layer": lambda: headed(L.Flatten(), L.Dense(3), L.Softmax()),
    "convolution": lambda: headed(L.Conv2D(3, 1), L.Reshape([3]), L.Activation("softmax")),
    "sigmoid": lambda: headed(L.Flatten(), L.Dense(1, "sigmoid", bias_initializer="ones")),
}


@pytest.mark.parametrize("head", HEADS)
def test_predictions_are_unchanged(head):
    source = HEADS[head]()
    source_probs = source.predict(IMAGES, verbose=0)
    if head in ("linear", "no_bias"):
        source_probs = scipy.special.softmax(source_probs, axis=-1)
    if head == "sigmoid":
        source_probs = np.concatenate([1 - source_probs, source_probs], axis=-1)
    model = models.S2DClassifier.from_classifier(source, num_samples=3, seed=0)
    np.testing.assert_allclose(model.predict_uncertainty(IMAGES)["probs"], source_probs, rtol=1e-5)
    assert model.image_shape == (8, 8, 1)
    assert model.mean is None, "nothing is added in front of the given model"
    assert model.noise.num_samples == 3


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in dir(keras.applications) if n[0].isupper()])
def test_every_keras_application_is_cast(name):
    keras.backend.clear_session()
    source = getattr(keras.applications, name)(weights=None, classes=5)
    model = models.S2DClassifier.from_classifier(source)
    assert model.num_parameters == sum(int(np.prod(w.shape)) for w in source.trainable_variables)


def test_it_trains_and_keeps_the_number_of_parameters():
    source = functional()
    model = models.S2DClassifier.from_classifier(source, seed=0)
    assert model.count_params() == source.count_params()
    assert len(model.trainable_variables) == len(source.trainable_variables)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    before = model.backbone.get_weights()[0].copy()
    assert np.isfinite(model.fit(IMAGES, LABELS, verbose=0).history["loss"][0])
    assert not np.array_equal(before, model.backbone.get_weights()[0])
    contracts.run_saving_test(model, IMAGES)


def test_other_heads_are_refused():
    images = keras.Input([8, 8, 1])
    flat = keras.layers.Flatten()(images)
    dense = keras.layers.Dense(3)
    heads = keras.layers
    refused = [
        (keras.Model(images, heads.Dense(3, "sigmoid")(flat)), r"or softmax .*received .*sigmoid"),
        (keras.Model(images, heads.Dense(3)(images)), "Pool or flatten them first"),
        (keras.Model(images, [dense(flat), flat]), "one output, received 2"),
        (keras.Model(images, heads.Dense(1)(flat)), "1 units with linear"),
        (keras.Sequential([heads.Flatten(), heads.Dense(3)]), "Start with keras.Input"),
        (Subclassed(), r"received Subclassed.*call the features and the last Dense .*keras\.Input"),
        (heads.Dense(3), "keras.Model, or .* received Dense"),
    ]
    for model, message in refused:
        with pytest.raises(ValueError, match=message) as error:
            models.S2DClassifier.from_classifier(model)
        assert "\n" not in str(error.value)


@keras.saving.register_keras_serializable(package="s2d_tf_tests")
class Tokenizer(keras.layers.Layer):
    """Stands for a preprocessor of KerasHub: texts to a dict of the network's inputs.

    Like its words, `size` is an asset of a saved model, which comes after the network is built.
    """

    def __init__(self, size=None, **kwargs):
        super().__init__(**kwargs)
        self.size = size

    def call(self, texts):
        if self.size is None:
            raise ValueError("no vocabulary")
        codes = tf.strings.unicode_decode(texts, "UTF-8").to_tensor(shape=[None, 5])
        return {"ids": codes % self.size, "mask": codes > 0}

    def save_assets(self, folder):
        pathlib.Path(folder, "size.txt").write_text(str(self.size))

    def load_assets(self, folder):
        self.size = int(pathlib.Path(folder, "size.txt").read_text())


def task(with_preprocessor=True):
    """Stands for a task model of KerasHub: a functional model with a preprocessor beside it."""
    ids = keras.Input([5], dtype="int32", name="ids")
    mask = keras.Input([5], dtype="bool", name="mask")
    weights = keras.ops.cast(mask, "float32")[:, :, None]
    x = keras.ops.sum(keras.layers.Embedding(16, 4)(ids) * weights, axis=1)
    model = keras.Model({"ids": ids, "mask": mask}, keras.layers.Dense(3)(x))
    model.preprocessor = Tokenizer(16) if with_preprocessor else None
    return model


def test_a_task_model_keeps_its_preprocessor():
    source = task()
    texts = np.array(["red", "a green one", "", "blue", "two", "three"])
    prepared = source.preprocessor(tf.constant(texts))
    expected = scipy.special.softmax(source(prepared), axis=-1)
    model = models.S2DClassifier.from_classifier(source, freeze=True, seed=0)
    np.testing.assert_allclose(model.predict_uncertainty(texts)["probs"], expected, rtol=1e-5)
    np.testing.assert_allclose(model.predict_uncertainty(list(texts))["probs"], expected, rtol=1e-5)
    model.compile("sgd", run_eagerly=True)
    model.fit(texts, LABELS, verbose=0)
    twin = contracts.reloaded(model)
    answer = model.predict_uncertainty(texts)["probs"]
    np.testing.assert_allclose(twin.predict_uncertainty(texts)["probs"], answer, rtol=1e-5)
    bare = models.S2DClassifier.from_classifier(task(with_preprocessor=False))
    assert {tensor.name for tensor in bare.contract.tensors} == {"ids", "mask"}


@pytest.mark.parametrize("kind", [models.Classifier, models.S2DClassifier])
def test_cached_features_train_the_linear_layer_as_the_whole_model_does(kind):
    whole = kind.from_classifier(functional(), freeze=True, seed=0)
    head = whole.head_only()
    cached = whole.predict_features(IMAGES)
    for model, inputs in ((whole, IMAGES), (head, cached)):
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
        model.fit(inputs, LABELS, epochs=3, shuffle=False, verbose=0)
    np.testing.assert_allclose(head.head.kernel, whole.head.kernel, rtol=1e-4, atol=1e-6)
    answer = head.predict_uncertainty(cached)
    found = whole.take_head(head).predict_uncertainty(IMAGES)
    contracts.assert_same(dict(found), dict(answer), rtol=1e-4, atol=1e-6)
