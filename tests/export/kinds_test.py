"""Every kind of input, in every format that has operators for it."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, layers, models
from tests.export.conftest import FORMATS

CLASSES, N = 3, 12
WORDS = ["red", "green", "blue", "one", "two", "three"]


def features(x):
    start = keras.initializers.GlorotUniform(1)
    x = keras.layers.Dense(5, "tanh", kernel_initializer=start)(x)
    return layers.Dropout(0.3, seed=7)(keras.layers.BatchNormalization()(x))


def embedded(ids, size, masked=False):
    start = keras.initializers.RandomNormal(seed=2)
    x = keras.layers.Embedding(size, 4, start, mask_zero=masked)(ids)
    return keras.layers.GlobalAveragePooling1D()(x)


def image(random):
    x = keras.Input([8, 8, 1])
    pixels = random.integers(0, 256, [N, 8, 8, 1]).astype(np.uint8)
    return keras.Model(x, features(keras.layers.Flatten()(x))), pixels


def free_size_image(random):
    x = keras.Input([None, None, 3])
    network = keras.Model(x, features(keras.layers.GlobalAveragePooling2D()(x)))
    return network, random.uniform(0, 1, [N, 9, 7, 3]).astype(np.float32)


def tokens(random):
    x = keras.Input([6], dtype="int32", name="ids")
    ids = random.integers(0, 20, [N, 6])
    ids[:, 0] = 1  # at least one is not masked
    return keras.Model(x, features(embedded(x, 20, masked=True))), ids


def words(texts):
    split = keras.layers.TextVectorization(output_sequence_length=4, vocabulary=WORDS)
    return embedded(split(texts), len(WORDS) + 2)


def strings(random):
    x = keras.Input([], dtype="string", name="texts")
    texts = [" ".join(random.choice(WORDS, 3)) for _ in range(N - 2)]
    return keras.Model(x, features(words(x))), np.array([*texts, "Grün 中文", ""])


def sequences(random):
    x = keras.Input([5, 3])
    both = keras.layers.Bidirectional(keras.layers.GRU(4, return_sequences=True))(x)
    inputs = random.normal(size=[N, 5, 3]).astype(np.float32)
    return keras.Model(x, features(keras.layers.LSTM(6)(both))), inputs


def table(random):
    x = keras.Input([5])
    return keras.Model(x, features(x)), random.normal(size=[N, 5]).astype(np.float32)


def two_named(random):
    a, b = keras.Input([4], name="a"), keras.Input([3], dtype="int32", name="b")
    network = keras.Model(
        {"a": a, "b": b}, features(keras.layers.Concatenate()([a, embedded(b, 9)]))
    )
    numbers = random.normal(size=[N, 4]).astype(np.float32)
    return network, {"a": numbers, "b": random.integers(0, 9, [N, 3])}


KINDS = {
    "image": (image, {"images": "uint8"}),
    "free_size_image": (free_size_image, {"images": "float32"}),
    "tokens": (tokens, {"ids": "int32"}),
    "strings": (strings, {"texts": "string"}),
    "sequences": (sequences, {"inputs": "float32"}),
    "table": (table, {"inputs": "float32"}),
    "two_named": (two_named, {"a": "float32", "b": "int32"}),
}


def build(kind):
    """A model, its inputs by name as the signature takes them, and its answers to them."""
    backbone, inputs = KINDS[kind][0](np.random.default_rng(0))
    pixels = (0, 255) if kind == "image" else None
    model = models.S2DClassifier(backbone, CLASSES, input_range=pixels, seed=0)
    types = KINDS[kind][1]
    named = inputs if isinstance(inputs, dict) else {next(iter(types)): inputs}
    named = {k: v if v.dtype.kind == "U" else v.astype(types[k]) for k, v in named.items()}
    return model, named, model.predict_uncertainty(inputs)


def compare(found, expected, size=N):
    for name, key in (("probabilities", "probs"), ("knowledge_uncertainty", "knowledge")):
        np.testing.assert_allclose(found[name], expected[key][:size], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_model_gives_the_models_answers(kind, tmp_path):
    model, inputs, expected = build(kind)
    version = export.load(export.save(model, tmp_path))
    assert {name: spec.dtype.name for name, spec in version.inputs.items()} == KINDS[kind][1]
    assert version.description["inputs"] == model.contract.to_dict()
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    compare(version.signatures["serving_default"](**tensors), expected)


class Guarded(keras.layers.Layer):  # checks its input, and makes a constant after the check
    def call(self, x):
        with tf.control_dependencies([tf.debugging.assert_less(x, 99.0)]):
            axis = tf.constant(-1)
        return tf.concat([x, x], axis)


def test_a_constant_that_waits_for_a_check_is_exported(tmp_path):
    backbone, inputs = table(np.random.default_rng(0))
    model = models.S2DClassifier(keras.Model(backbone.inputs, Guarded()(backbone.output)), CLASSES)
    found = export.load(export.save(model, tmp_path)).signatures["serving_default"](inputs=inputs)
    compare(found, model.predict_uncertainty(inputs))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "kind",
    [
        *("tokens", "two_named"),
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("image", "free_size_image", "table")),
    ],
)
def test_other_runtimes_give_the_same_answers(kind, form, tmp_path):
    save, load, name = FORMATS[form]
    model, inputs, expected = build(kind)
    assert save(model, tmp_path / name) == tmp_path / name
    run = load(tmp_path / name)
    for size in (1, N):
        compare(run(**{key: value[:size] for key, value in inputs.items()}), expected, size)


@pytest.mark.parametrize("form", FORMATS)
def test_what_another_runtime_cannot_do_is_said_in_one_line(form, tmp_path):
    save, _, name = FORMATS[form]
    with pytest.raises(ValueError, match=r"neither ONNX nor LiteRT .* the texts \['texts'\]"):
        save(build("strings")[0], tmp_path / name)
    x = keras.Input([2], dtype="int64", name="ids")
    found = keras.layers.IntegerLookup(vocabulary=[3, 5, 7])(x)
    model = models.S2DClassifier(keras.Model(x, embedded(found, 4)), CLASSES)
    with pytest.raises(
        ValueError, match=r"received .*LookupTableFind.*Export a SavedModel"
    ) as caught:
        save(model, tmp_path / name)
    assert "\n" not in str(caught.value)
    with pytest.raises(ValueError, match=f"expected a file that ends in '{name[1:]}'"):
        save(model, tmp_path / "folder")
    assert not list(tmp_path.iterdir())
