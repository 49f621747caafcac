"""What every predictor answers, for arrays and datasets of all forms."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import layers, models
from tests import contracts

CLASSES = 3
IMAGES = np.random.default_rng(0).integers(0, 256, [11, 8, 8, 1]).astype(np.uint8)
LABELS = np.arange(11) % CLASSES


def backbone():
    images = keras.Input([8, 8, 1])
    initializer = keras.initializers.HeNormal(seed=1)
    x = keras.layers.Conv2D(4, 3, strides=2, kernel_initializer=initializer)(images)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    return keras.Model(images, keras.layers.Flatten()(x))


@pytest.fixture(scope="module")
def model():
    return models.S2DClassifier(backbone(), CLASSES, mean=[128.0], stddev=[64.0], seed=0)


@pytest.fixture(scope="module")
def expected(model):
    return model.predict_uncertainty(IMAGES)


def slices(*parts):
    return tf.data.Dataset.from_tensor_slices(parts if len(parts) > 1 else parts[0])


INPUTS = {
    "float_array": lambda: IMAGES.astype(np.float32),
    "tensor": lambda: tf.constant(IMAGES),
    "list": lambda: list(IMAGES),
    "unbatched": lambda: slices(IMAGES),
    "unbatched_pairs": lambda: slices(IMAGES, LABELS),
    "batched": lambda: slices(IMAGES).batch(4),
    "batched_pairs": lambda: slices(IMAGES, LABELS).batch(4),
    "batched_dropping": lambda: slices(IMAGES, LABELS).batch(11, drop_remainder=True),
    "weighted": lambda: slices(IMAGES, LABELS, np.ones(11)).batch(3),
}


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_any_form_of_input_gives_the_same_answer(model, expected, name):
    answer = model.predict_uncertainty(INPUTS[name](), batch_size=4)
    assert set(answer) == {"probs", "label", "confidence", "total", "data", "knowledge"}
    for key, value in answer.items():
        assert isinstance(value, np.ndarray)
        np.testing.assert_allclose(value, expected[key], atol=1e-6)
    kind, members = model.predict_members(INPUTS[name](), batch_size=4)
    assert (kind, members.shape, members.dtype) == ("dirichlet", (1, 11, CLASSES), np.float32)


def test_contract():
    options = {"mean": [128.0], "stddev": [64.0], "seed": 0}
    contracts.run_predictor_test(lambda: models.S2DClassifier(backbone(), 3, **options), IMAGES)


def test_answers_follow_weights_layers_and_compile():
    model = models.S2DClassifier(backbone(), CLASSES, mean=[128.0], stddev=[64.0], seed=0)
    before = model.predict_members(IMAGES)[1]
    kernel = model.head.kernel.numpy()
    model.head.kernel.assign(2 * kernel)
    np.testing.assert_allclose(model.predict_members(IMAGES)[1], 2 * before, rtol=1e-4, atol=1e-5)
    model.head = layers.Head(CLASSES, kernel_initializer="zeros")  # other variables
    model.head.build((None, 1, 1, kernel.shape[1]))
    assert not model.predict_members(IMAGES)[1].any()
    model.mean = (0.0,)  # which Keras, too, sees after `compile`
    model.head.kernel.assign(kernel)
    stale = model.predict_members(IMAGES)[1]
    model.compile()
    assert not np.array_equal(model.predict_members(IMAGES)[1], stale)


def entered(function):
    """The functions of the library that a call enters, by file."""
    seen = set()

    def note(frame, event, _):
        code = frame.f_code
        if event == "call" and "s2d_tf/" in code.co_filename and code.co_name[0] != "<":
            seen.add((code.co_filename.split("s2d_tf/")[-1], code.co_name))

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return seen


def test_a_prediction_is_a_short_way_from_the_user_to_the_graph(model, expected):
    seen = entered(lambda: model.predict_uncertainty(IMAGES))
    print(*sorted(seen), sep="\n")
    assert len(seen) <= 16
    assert len({file for file, _ in seen}) <= 6


BAD = {
    "no_images": (lambda: IMAGES[:0], r"at least one, received lengths \[0\]"),
    "empty_dataset": (lambda: slices(IMAGES).take(0), "at least one example, received none"),
    "one_image": (lambda: IMAGES[0], r"images \(batch, 8, 8, 1\), received the shape \(8, 8, 1\)"),
}


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_images_are_refused_in_one_line(model, name):
    make, message = BAD[name]
    for ask in (model.predict_members, model.predict_uncertainty):
        with pytest.raises(ValueError, match=message) as error:
            ask(make())
        assert "\n" not in str(error.value)
