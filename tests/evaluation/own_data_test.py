"""Arrays and `tf.data` in evaluation: the same answers as registered datasets, and clear errors."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import data, evaluation, models
from s2d_tf.evaluation import tables
from s2d_tf.evaluation.predictions import inference_time


@pytest.fixture(scope="module")
def model(network):
    return network(models.S2DClassifier)


@pytest.fixture(scope="module")
def arrays():
    images, labels = data.load_arrays("digits", "test")
    return images[:300], labels[:300]


@pytest.fixture(scope="module")
def photos():
    return data.load_arrays("digits_photos", "test")[0][:200]


@pytest.fixture(scope="module")
def found(model, arrays, photos):
    return evaluation.evaluate(model, arrays, ood={"mine": photos}, name="own")


def slices(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays if len(arrays) > 1 else arrays[0])


def test_arrays_have_the_metrics_of_the_registered_dataset(model):
    named = evaluation.evaluate(model, "digits", ["digits_photos"])
    known, unknown = (data.load_arrays(n, "test") for n in ("digits", "digits_photos"))
    for far in (unknown[0], unknown, "digits_photos"):
        own = evaluation.evaluate(model, known, {"digits_photos": far}, name="digits")
        assert own == named


@pytest.mark.parametrize("batched", [True, False])
def test_a_tf_data_dataset_is_streamed(model, arrays, photos, found, batched, passes):
    known, unknown = slices(*arrays), slices(photos)
    if batched:
        known, unknown = known.batch(64), unknown.batch(64)
    again = evaluation.evaluate(model, known, {"mine": unknown}, name="own", batch_size=128)
    assert again == pytest.approx(found, abs=1e-5)
    assert passes == ([64] * 4 + [44] + [64] * 3 + [8] if batched else [128, 128, 44, 128, 72])


def test_labels_of_any_type(model, arrays, found):
    images, labels = arrays
    column, one_hot = labels.astype(np.float32)[:, None], np.eye(8, dtype=np.float32)[labels]
    for same in (labels.astype(np.uint8), column, one_hot):
        again = evaluation.evaluate(model, (images, same), name="own")
        assert again["own/nll"] == found["own/nll"]


NUMBERS = np.arange(20, dtype=np.float32).reshape(10, 2)
TEXTS = np.array(["red", "green", "red green", "", "blue"] * 2, dtype=object)
INPUTS = {"table": NUMBERS, "texts": TEXTS, "dict": {"a": TEXTS, "b": NUMBERS}}


def model_of(kind):
    """A model of a table, of texts, or of both in a dict."""
    texts, numbers = keras.Input([], dtype="string", name="a"), keras.Input([2], name="b")
    split = keras.layers.TextVectorization(output_mode="multi_hot", vocabulary=["red", "green"])
    both = keras.layers.Concatenate()([split(texts), numbers])
    inputs, features = {
        "table": (numbers, keras.layers.Dense(3)(numbers)),
        "texts": (texts, keras.layers.Rescaling(1.0)(split(texts))),
        "dict": ({"a": texts, "b": numbers}, both),
    }[kind]
    return models.S2DClassifier(keras.Model(inputs, features), 3, seed=0)


@pytest.mark.parametrize("kind", INPUTS)
def test_inputs_of_any_kind(kind, tmp_path, passes):
    inputs, labels = INPUTS[kind], np.arange(10) % 3
    model = model_of(kind)
    options = {"cache_dir": tmp_path, "ood": {"mine": inputs}}
    found = evaluation.evaluate(model, (inputs, labels), **options)
    assert len(passes) == 1, "the same content under two names is predicted once"
    probs = model.predict_uncertainty(inputs)["probs"]
    expected = -np.log(probs[np.arange(10), labels]).mean()
    assert found["data/nll"] == pytest.approx(expected, abs=1e-5)
    assert found["mine/auroc/total"] == 0.5
    passes.clear()
    assert evaluation.evaluate(model, (inputs, labels), **options) == found
    assert passes == []
    again = evaluation.evaluate(model, slices(inputs, labels).batch(4))
    assert len(passes) == 3
    assert again["data/nll"] == pytest.approx(expected, abs=1e-5)
    milliseconds, ratio = inference_time(model, model, batch_size=4)
    assert milliseconds > 0
    assert 0.02 < ratio < 50


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x, y: (x, y[:-1]), r"same length.*received lengths \[299, 300\]"),
        (lambda x, y: (x, y + 0.5), "labels: expected 300 class numbers.*float64"),
        (lambda x, y: (x, np.full([300, 8], 0.125)), "class numbers or one-hot rows"),
        (lambda x, y: (x, y + 3), r"labels: expected classes in \[0, 8\), received"),
        (lambda x, y: x, "Remove examples without a label"),
        (lambda x, y: (x[:0], y[:0]), r"at least one, received lengths \[0\]"),
        (lambda x, y: slices(x, y + 3).batch(50), r"labels: expected classes in \[0, 8\)"),
        (lambda x, y: slices(x, y).take(0).batch(4), "expected at least one example"),
        (lambda x, y: iter([(x, y)]), "read more than once, received list_iterator"),
    ],
)
def test_bad_data_is_rejected_before_the_first_pass(model, arrays, passes, change, message):
    with pytest.raises(ValueError, match=message) as caught:
        evaluation.evaluate(model, change(*arrays))
    assert "\n" not in str(caught.value)
    assert passes == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ood": [np.zeros([2, 8, 8, 1])]}, "ood: expected a list of registered names or a dict"),
        ({"ood": {"data": "digits_photos"}}, "names than that of the dataset, received 'data'"),
        ({"ood": {"a/b": "digits_photos"}}, "name: expected a text without '/'"),
        ({"ood": ["digit"]}, "received 'digit'"),
    ],
)
def test_bad_names_are_rejected(model, arrays, options, message):
    with pytest.raises(ValueError, match=message):
        evaluation.evaluate(model, arrays, **options)


def test_a_shuffled_dataset_is_evaluated_but_neither_cached_nor_compared(
    model, arrays, found, tmp_path
):
    shuffled = slices(*arrays).shuffle(300).batch(64)
    again = evaluation.evaluate(model, shuffled, name="own")
    assert again["own/nll"] == pytest.approx(found["own/nll"], abs=1e-5)
    with pytest.raises(ValueError, match="same order in every pass"):
        evaluation.evaluate(model, shuffled, cache_dir=tmp_path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match="same order for both models"):
        evaluation.compare(model, model, shuffled, num_resamples=5)


def test_two_models_are_compared_in_pairs(model, arrays, photos, network):
    other = network(models.S2DClassifier, seed=1)
    options = {"ood": {"mine": photos}, "num_resamples": 30}
    table = evaluation.compare(model, other, arrays, **options)
    first, second = (evaluation.score_datasets(m, arrays, {"mine": photos}) for m in (model, other))
    assert table.rows == tables.difference_table(first.intervals(second, 30), "", 30).rows
    same = evaluation.compare(model, model, arrays, **options)
    assert {row[-1].text for row in same.rows} == {"no clear difference"}
