"""Bad input to `fit`, `evaluate` and constructors: an error of one line that says what to do."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import models
from tests import contracts
from tests.models import tiny
from tests.models.tiny import CLASSES, LABELS, PAIR_LABELS, backbone

IMAGES = tiny.IMAGES.astype(np.float32)
BROKEN, INFINITE = IMAGES.copy(), IMAGES.copy()
BROKEN[7, 3, 3, 0], INFINITE[7, 3, 3, 0] = np.nan, np.inf


@pytest.fixture(scope="module")
def model():
    return tiny.s2d()


BAD = {
    "too_large": (IMAGES, LABELS + 1, r"labels in \[0, 2\], received values from 1 to 3"),
    "negative": (IMAGES, LABELS - 1, r"labels in \[0, 2\], received values from -1 to 1"),
    "float": (IMAGES, LABELS.astype(np.float32), r"integer labels in \[0, 2\].*received float32"),
    "one_hot_sum": (IMAGES, 2 * np.eye(3)[LABELS], "that sum to 1, received sums from 2"),
    "one_hot_negative": (IMAGES, [[-0.5, 1.5, 0]] * 12, "at least 0 .* lowest number -0.5"),
    "one_hot_nan": (IMAGES, [[np.nan, 1, 0]] * 12, "that sum to 1, received sums from"),
    "one_hot_width": (IMAGES, np.eye(4, dtype=int)[LABELS], r"\[batch\] .* or \[batch, 3\]"),
    "nan": (BROKEN, LABELS, "images: expected numbers, received NaN or infinity. Clean"),
    "infinity": (INFINITE, LABELS, "images: expected numbers, received NaN or infinity. Clean"),
    "size": (IMAGES[:, :4], LABELS, r"images \(batch, 8, 8, 1\), received the shape \("),
    "channels_first": (np.zeros([12, 1, 8, 8]), LABELS, r"1, 8, 8\)\. Transpose"),
    "rank": (IMAGES[..., 0], LABELS, r"\(batch, 8, 8, 1\), received the shape"),
}


def check(call, message):
    with pytest.raises(ValueError, match=message) as error:
        call()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("name", sorted(BAD))
def test_bad_arrays_and_datasets(model, name):
    images, labels, message = BAD[name]
    weights = model.get_weights()
    dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(12)
    for data in ((images, labels), (dataset,)):
        check(lambda data=data: model.fit(*data, verbose=0), message)
        check(lambda data=data: model.evaluate(*data, verbose=0), message)
    contracts.assert_same(model.get_weights(), weights)


def test_datasets_in_a_graph():
    model = models.Classifier(backbone(), CLASSES)  # quicker to trace than S2D
    model.compile(keras.optimizers.SGD(0.1))
    for name in ("too_large", "nan"):
        images, labels, message = BAD[name]
        dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(4)
        check(lambda dataset=dataset: model.fit(dataset, verbose=0), message)


def test_unbatched_and_shapeless_datasets(model):
    unbatched = tf.data.Dataset.from_tensor_slices((IMAGES, LABELS))
    check(lambda: model.fit(unbatched, verbose=0), "Batch the dataset first")
    shapeless = tf.data.Dataset.from_generator(
        lambda: iter([(IMAGES, LABELS)]), output_types=(tf.float32, tf.int64)
    )
    check(lambda: model.fit(shapeless, verbose=0), r"images \(batch, 8, 8, 1\), received the shape")


def test_numbers_of_images_and_labels(model):
    check(lambda: model.fit(IMAGES, LABELS[:5], verbose=0), r"received lengths \[5, 12\]")
    check(lambda: model.fit(IMAGES[:0], LABELS[:0], verbose=0), r"received lengths \[0\]")
    column = model.evaluate(IMAGES, LABELS[:, None], verbose=0)
    np.testing.assert_allclose(column, model.evaluate(IMAGES, LABELS, verbose=0))


def test_mimo():
    mimo, three = tiny.compiled(num_heads=2), np.stack([IMAGES] * 3, axis=1)
    check(lambda: mimo.fit(three, PAIR_LABELS), r"\(batch, 8, 8, 1\) or \(batch, 2, 8, 8, 1\)")
    check(lambda: mimo.fit(tiny.PAIRS, PAIR_LABELS + 1), r"labels in \[0, 2\], received values")
    many = np.stack([LABELS] * 3, axis=1)
    check(lambda: mimo.fit(tiny.PAIRS, many), r"\[batch\] or \[batch, 2\]")


ARGUMENTS = {
    "num_classes": ({"num_classes": 1}, "num_classes: expected at least 2, received 1"),
    "num_heads": ({"num_heads": 2}, r"num_heads: expected 1, or .* received 2 .*\(8, 8, 1\)"),
    "weight_decay": ({"weight_decay": -1e-4}, "weight_decay: expected at least 0"),
    "weight_decay_nan": ({"weight_decay": float("nan")}, "weight_decay: expected at least 0"),
    "mean": ({"mean": [1.0, 2.0, 3.0]}, "mean: expected one number for each of 1 channels"),
    "a mean of NaN": ({"mean": [float("nan")]}, "mean: expected one number for each of 1 channels"),
    "stddev": ({"stddev": [0.0]}, "stddev: expected one positive number for each of 1"),
    "num_samples": ({"num_samples": 0}, "num_samples: expected at least 1 teacher pass"),
    "noise_stddev": ({"noise_stddev": -0.1}, "stddev: expected a number of at least 0"),
    "noise_range": ({"noise_stddev": (0.5, 0.1)}, "0 <= low <= high"),
    "temperature": ({"temperature": 0}, "a number above 0, received 0"),
    "student_weight": ({"student_weight": -1.0}, "student_weight: expected at least 0"),
    "student_weight_nan": ({"student_weight": float("nan")}, "student_weight: expected at least 0"),
    "proxy": ({"proxy": "minka"}, "proxy: expected one of .*newton.*mean_precision.*'minka'"),
    "student_loss": ({"student_loss": "l2"}, "student_loss: expected one of .*reverse_kl.*'l2'"),
    "noise": ({"noise": 0.1}, "noise: expected None or a layers.Noise, received 0.1"),
}


@pytest.mark.parametrize("name", sorted(ARGUMENTS))
def test_arguments(name):
    arguments, message = ARGUMENTS[name]
    arguments = {"num_classes": CLASSES, **arguments}
    check(lambda: models.S2DClassifier(backbone(), **arguments), message)
