"""What a model says that it takes: declared, learned, kept, and warned about."""

import json
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import evaluation, export, models, posthoc
from s2d_tf.models.contract import Contract
from tests import contracts

RANDOM = np.random.default_rng(0)
PIXELS = RANDOM.integers(0, 256, [12, 8, 8, 1]).astype(np.uint8)
LABELS = np.arange(12) % 3


def classifier(**kwargs):
    x = keras.Input([8, 8, 1])
    model = models.Classifier(keras.Model(x, keras.layers.Flatten()(x)), 3, seed=0, **kwargs)
    model.compile(keras.optimizers.SGD(1e-6), run_eagerly=True)
    return model


STANDARDIZED = np.float32((PIXELS - 120.0) / 30)


@pytest.mark.parametrize(
    ("pixels", "expected", "bounded"),
    [
        (PIXELS, (0, 255), True),
        (np.float32(PIXELS), (0, 255), True),
        (np.float32(PIXELS / 255), (0, 1), True),
        (np.float32(PIXELS / 127.5 - 1), (-1, 1), True),
        (STANDARDIZED, (STANDARDIZED.min(), STANDARDIZED.max()), False),
    ],
    ids=["bytes", "raw", "unit", "signed", "standardized"],
)
def test_the_range_of_pixels_is_learned_and_kept(pixels, expected, bounded):
    model = classifier()
    assert model.contract.image.range is None
    model.fit(pixels, LABELS, verbose=0)
    assert model.contract.image.range == pytest.approx(expected)
    assert model.contract.image.bounded == bounded
    contracts.run_saving_test(model, pixels)


def test_a_declared_range_is_not_learned():
    model = classifier(input_range=(0, 1))
    with pytest.warns(UserWarning, match="from 0 to 1, received 0 to 255"):
        model.fit(PIXELS, LABELS, verbose=0)
    assert model.contract.image.range == (0, 1)
    assert classifier(mean=[120.0]).contract.image.range == (0, 255)
    with pytest.raises(ValueError, match="with low below high"):
        classifier(input_range=(1, 0))


def test_inputs_in_the_range_are_not_warned_about():
    model = classifier(mean=[120.0], stddev=[60.0])
    with warnings.catch_warnings(action="error"):
        for fine in (PIXELS, np.zeros_like(PIXELS), np.float32(PIXELS) * 1.02):
            model.predict_uncertainty(fine)


UNIT = np.float32(PIXELS / 255)


def cast():
    x = keras.Input([8, 8, 1])
    features = keras.layers.Dense(4, "relu")(keras.layers.Flatten()(x))
    model = models.S2DClassifier.from_classifier(keras.Model(x, keras.layers.Dense(3)(features)))
    model.compile("sgd")
    return model


def batches(*arrays):
    return tf.data.Dataset.from_tensor_slices(arrays).batch(6)


SHOWN = {
    "a post-hoc step": lambda model: posthoc.KNN(k=2).fit(model, (UNIT, LABELS)),
    "a step of an ensemble": lambda model: posthoc.TemperatureScaling().fit(
        models.Ensemble([model, model]), (UNIT, LABELS)
    ),
    "collected outputs": lambda model: posthoc.KNN(k=2).fit(
        model, posthoc.collect(model, (UNIT, LABELS))
    ),
    "features": lambda model: model.predict_features(UNIT),
    "train_on_batch": lambda model: [model.train_on_batch(x, LABELS) for x in (UNIT / 9, UNIT)],
    "tf.data": lambda model: model.fit(batches(UNIT, LABELS), verbose=0),
    "a generator": lambda model: model.fit(((UNIT, LABELS) for _ in range(1)), verbose=0),
}


@pytest.mark.parametrize("name", SHOWN)
def test_whatever_sees_data_learns_the_range(name):
    model = cast()
    SHOWN[name](model)
    with pytest.warns(UserWarning, match="range from 0 to 1, received 0 to 255"):
        model.predict_uncertainty(PIXELS)
    assert model.contract.image.bounded  # so that its exports reject other pixels


PREDICTS = {
    "predict_uncertainty": lambda model, x: model.predict_uncertainty(x),
    "predict": lambda model, x: model.predict(x, verbose=0),
    "predict_on_batch": lambda model, x: model.predict_on_batch(x),
    "predict_features": lambda model, x: model.predict_features(x),
    "evaluate": lambda model, x: model.evaluate(x, LABELS[: len(x)], verbose=0),
    "test_on_batch": lambda model, x: model.test_on_batch(x, LABELS),
}


def test_a_model_that_knows_no_range_says_so(tmp_path):
    for ask in (*PREDICTS.values(), lambda model, _: export.save(model, tmp_path)):
        with pytest.warns(UserWarning, match="expected a known range"):
            ask(cast(), PIXELS)


def test_knowledge_uncertainty_is_warned_about_until_the_cast_model_is_trained(tmp_path):
    model = cast()
    model.train_on_batch(UNIT, LABELS)
    with warnings.catch_warnings(action="error", category=UserWarning):
        model.predict_uncertainty(UNIT)
    for use in (
        lambda model: evaluation.evaluate(model, (UNIT, LABELS)),
        lambda model: export.save(model, tmp_path),
        lambda model: posthoc.Uncertainty("knowledge").fit(model).score(UNIT),
    ):
        with pytest.warns(UserWarning, match="knowledge uncertainty means nothing"):
            use(cast())
    model = cast()
    model.save(tmp_path / "m.keras")
    for each in (model, posthoc.MSP().fit(model), keras.models.load_model(tmp_path / "m.keras")):
        with pytest.warns(UserWarning, match="knowledge uncertainty means nothing"):
            each.predict_uncertainty(UNIT)
    model.fit(UNIT, LABELS, verbose=0)


BEYOND = np.where(np.arange(64).reshape(8, 8, 1) == 5, 1e39, UNIT.astype(np.float64))


@pytest.mark.parametrize("bad", [BEYOND, np.nan * UNIT], ids=["beyond float32", "nan"])
def test_numbers_that_float32_does_not_have_are_rejected(bad):
    model = classifier(input_range=(0, 1))
    for use in (model.predict_uncertainty, lambda x: model.train_on_batch(x, LABELS)):
        with pytest.raises(ValueError, match="images: expected numbers, received NaN or infinity"):
            use(bad)


class Endless(keras.utils.PyDataset):
    num_batches = None

    def __getitem__(self, index):
        return UNIT, LABELS


@pytest.mark.parametrize("make", [Endless, lambda: batches(UNIT, LABELS).repeat()])
def test_a_dataset_without_an_end_is_rejected(make):
    model = classifier(input_range=(0, 1))
    for use in (
        model.predict_uncertainty,
        lambda x: model.evaluate(x, verbose=0),
        lambda x: model.fit(UNIT, LABELS, validation_data=x, verbose=0),
    ):
        with pytest.raises(ValueError, match="expected a dataset that ends"):
            use(make())
    model.evaluate(make(), steps=1, verbose=0)


REVERSE = PREDICTS | {
    "standardized": lambda model, _: model.predict_uncertainty(STANDARDIZED),
    "a later batch": lambda model, x: model.predict_uncertainty(batches([*PIXELS[:6], *x[:6]])),
    "evaluate tf.data": lambda model, x: model.evaluate(batches(x, LABELS), verbose=0),
    "fit tf.data": lambda model, x: model.fit(batches(x, LABELS), verbose=0),
    "a generator": lambda model, x: model.fit(((x, LABELS) for _ in range(1)), verbose=0),
    "train_on_batch": lambda model, x: model.train_on_batch(x, LABELS),
}


@pytest.mark.parametrize("name", REVERSE)
def test_scaled_pixels_for_a_model_of_raw_ones_are_warned_about_once(name):
    model = classifier(mean=[120.0], stddev=[60.0])
    with pytest.warns(UserWarning, match="range from 0 to 255, received (0 to 1|-)") as found:
        [REVERSE[name](model, UNIT) for _ in range(2)]
    assert sum("range" in str(each.message) for each in found) == 1


def test_a_table_far_from_the_training_data_is_warned_about():
    x = keras.Input([5])
    model = models.Classifier(keras.Model(x, keras.layers.Dense(4)(x)), 3, seed=0)
    model.compile("sgd", run_eagerly=True)
    table = RANDOM.normal(size=[12, 5])
    model.fit(table, LABELS, verbose=0)
    with warnings.catch_warnings(action="error"):
        model.predict_uncertainty(3 * table)  # unusual, but what uncertainty is for
    with pytest.warns(UserWarning, match="inputs: expected values as in training"):
        model.predict_uncertainty(1000 * table)


def test_plain_values_round_trip():
    a, b = keras.Input([4], name="a"), keras.Input([], dtype="string", name="b")
    for inputs in ({"x": a, "y": b}, [a, b], (a, b), a):
        network = keras.Model(inputs, a)
        contract = Contract.of(network, input_range=(0, 2))
        again = Contract.from_dict(json.loads(json.dumps(contract.to_dict())))
        assert (again.tensors, again.fits(contract)) == (contract.tensors, True)
        assert keras.tree.flatten(again.sample(2))[0].shape == (2, 4)


def test_members_of_an_ensemble_take_the_same_range():
    raw, scaled = classifier(input_range=(0, 255)), classifier(input_range=(0, 1))
    with pytest.raises(ValueError, match="members: expected predictors of the same input ranges"):
        models.Ensemble([raw, scaled])
    assert models.Ensemble([classifier(), scaled]).contract == scaled.contract


BACKBONES = {
    "feature_maps": (
        lambda x: keras.Model(x, keras.layers.Conv2D(4, 3)(x)),
        r"feature vectors .* received outputs .* \[\(\(None, 6, 6, 4\), 'float32'\)\]\. Pool",
    ),
    "not_built": (
        lambda x: keras.Sequential([keras.layers.Flatten()]),
        "backbone: expected a functional keras.Model or .* received Sequential",
    ),
    "whole_numbers": (
        lambda x: keras.Model(x, keras.ops.cast(keras.layers.Flatten()(x), "int32")),
        "backbone: expected one output, floating-point .* received .*int32",
    ),
}


@pytest.mark.parametrize("name", BACKBONES)
def test_unusable_backbones_are_rejected_in_one_line(name):
    make, message = BACKBONES[name]
    with pytest.raises(ValueError, match=message) as error:
        models.S2DClassifier(make(keras.Input([8, 8, 1])), 3)
    assert "\n" not in str(error.value)


def test_numbers_that_an_embedding_does_not_have_are_rejected():
    x = keras.Input([6], dtype="int32", name="ids")
    words = keras.layers.GlobalAveragePooling1D()(keras.layers.Embedding(20, 4)(x))
    model = models.Classifier(keras.Model(x, words), 3)
    with pytest.raises(ValueError, match="ids: expected numbers from 0 to 19, received 3 to 20"):
        model.predict_uncertainty([[3, 4, 5, 6, 7, 20]])
    with pytest.raises(ValueError, match="ids: expected int32, received float64"):
        model.predict_uncertainty([[3.0] * 6])
