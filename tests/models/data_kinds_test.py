"""Whatever Keras takes goes into `fit`, `evaluate` and `predict_uncertainty`, and is checked."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, models
from tests import contracts

RANDOM = np.random.default_rng(0)
N, CLASSES = 12, 3
TABLE = RANDOM.normal(size=[N, 5]).astype(np.float32)
LABELS = np.arange(N) % CLASSES
ONE_HOT = np.eye(CLASSES, dtype=np.float32)[LABELS]


def classifier(kind=models.Classifier):
    x = keras.Input([5])
    start = keras.initializers.GlorotUniform(1)
    backbone = keras.Model(x, keras.layers.Dense(4, "tanh", kernel_initializer=start)(x))
    model = kind(backbone, CLASSES, seed=0)
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return 3

    def __getitem__(self, index):
        part = slice(4 * index, 4 * index + 4)
        return self.x[part], self.y[part]


def generator(x, y):
    for start in range(0, N, 4):
        yield x[start : start + 4], y[start : start + 4]


def dataset(x, y):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(4)


FEEDS = {"dataset": dataset, "batches": Batches, "generator": generator}


@pytest.fixture(scope="module")
def model():
    return classifier()


@pytest.mark.parametrize("name", FEEDS)
def test_every_feed_trains_evaluates_and_predicts_as_arrays_do(name, model):
    feed, trained = FEEDS[name], classifier()
    trained.fit(feed(TABLE, LABELS), verbose=0, shuffle=False)
    expected = classifier()
    expected.fit(TABLE, LABELS, batch_size=4, shuffle=False, verbose=0)
    contracts.assert_same(trained.get_weights(), expected.get_weights(), atol=1e-6)
    assert trained.contract == expected.contract, "learned from the same batches"
    np.testing.assert_allclose(
        trained.evaluate(feed(TABLE, LABELS), verbose=0),
        expected.evaluate(TABLE, LABELS, batch_size=4, verbose=0),
        rtol=1e-5,
    )
    np.testing.assert_allclose(
        trained.predict_uncertainty(feed(TABLE, LABELS))["probs"],
        expected.predict_uncertainty(TABLE)["probs"],
        atol=1e-6,
    )


@pytest.mark.parametrize("name", FEEDS)
def test_every_feed_is_checked(name, model):
    broken = TABLE.copy()
    broken[7, 3] = np.nan
    for x, y, message in (
        (broken, LABELS, "inputs: expected numbers, received NaN or infinity"),
        (TABLE[:, :4], LABELS, r"x: expected inputs \(batch, 5\), received the shape \(.*, 4\)"),
        (TABLE, LABELS + 1, r"labels in \[0, 2\], received values from"),
        (TABLE, 2 * ONE_HOT, "sum to 1, received sums from 2"),
    ):
        with pytest.raises(ValueError, match=message):
            model.evaluate(FEEDS[name](x, y), verbose=0)
    with pytest.raises(ValueError, match="inputs: expected numbers, received NaN"):
        model.predict_uncertainty(FEEDS[name](broken, LABELS))
    with pytest.raises(ValueError, match="received NaN"):
        model.fit(TABLE, LABELS, validation_data=FEEDS[name](broken, LABELS), verbose=0)
    assert all(np.isfinite(weight).all() for weight in model.get_weights())


def test_class_names_of_a_folder_are_printed_and_exported(tmp_path):
    for name in ("ant", "bee"):
        (tmp_path / "set" / name).mkdir(parents=True)
        keras.utils.save_img(tmp_path / "set" / name / "0.png", np.zeros([4, 4, 3]), scale=False)
    images = keras.utils.image_dataset_from_directory(tmp_path / "set", image_size=(4, 4))
    x = keras.Input([4, 4, 3])
    model = models.S2DClassifier(keras.Model(x, keras.layers.Flatten()(x)), 2, seed=0)
    model.compile("sgd", run_eagerly=True)
    model.fit(images, verbose=0)
    model = contracts.reloaded(model)
    answer = model.predict_uncertainty(images)
    assert ("ant", "bee")[answer["label"][0]] in repr(answer)
    assert export.load(export.save(model, tmp_path / "exported")).class_names == ("ant", "bee")


@pytest.mark.parametrize("kind", [models.Classifier, models.S2DClassifier])
def test_one_hot_labels_train_as_class_numbers_do(kind):
    histories, weights = [], []
    for labels in (LABELS, ONE_HOT, ONE_HOT.astype(int)):
        model = classifier(kind)
        data = {"class_weight": {0: 1.0, 1: 2.0, 2: 0.5}, "shuffle": False, "verbose": 0}
        histories.append(model.fit(TABLE, labels, **data).history)
        weights.append(model.get_weights())
    for history, held in zip(histories[1:], weights[1:], strict=True):
        contracts.assert_same(history, histories[0], rtol=1e-5)
        contracts.assert_same(held, weights[0], atol=1e-6)
    # The same compiled model goes on with the other kind.
    evaluated = [model.evaluate(TABLE, labels, verbose=0) for labels in (LABELS, ONE_HOT)]
    np.testing.assert_allclose(*evaluated, rtol=1e-5)


def test_soft_labels_and_sample_weights_equal_numpy(model):
    soft = 0.7 * ONE_HOT + 0.1
    weights = np.linspace(0, 1, N).astype(np.float32)
    logits = model.predict_members(TABLE)[1][0].astype(np.float64)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -(weights * (soft * log_probs).sum(-1)).sum() / N
    found = model.evaluate(TABLE, soft, sample_weight=weights, verbose=0, return_dict=True)
    # Keras averages the logged loss by the sum of the batch's rows.
    np.testing.assert_allclose(found["loss"], expected, rtol=1e-4)


@pytest.mark.parametrize(
    "loss",
    [
        "sparse_categorical_crossentropy",
        keras.losses.CategoricalCrossentropy(),
        keras.losses.sparse_categorical_crossentropy,
    ],
)
def test_losses_that_take_probabilities_are_rejected(loss):
    with pytest.raises(ValueError, match="loss: expected one that takes logits, received"):
        classifier().compile("sgd", loss=loss)


def test_a_loss_that_is_no_number_stops_training_and_keeps_the_weights(tmp_path):
    model = classifier(models.S2DClassifier)
    model.fit(TABLE, LABELS, verbose=0)
    held = model.get_weights()
    weights = np.where(np.arange(N) == 7, np.nan, 1).astype(np.float32)
    saved = keras.callbacks.ModelCheckpoint(tmp_path / "model.weights.h5", save_weights_only=True)
    options = {"batch_size": 4, "epochs": 9, "initial_epoch": 2, "callbacks": [saved]}
    with pytest.raises(ValueError, match=r"in epoch 3 \(in .*teacher_loss.*The weights are"):
        model.fit(TABLE, LABELS, sample_weight=weights, verbose=0, **options)
    contracts.assert_same(model.get_weights(), held)
    assert not (tmp_path / "model.weights.h5").exists()


@pytest.mark.parametrize("form", [list, tuple, dict])
def test_two_inputs_in_every_form(form):
    a, b = keras.Input([5], name="a"), keras.Input([2], name="b")
    names = {"a": a, "b": b}
    inputs = names if form is dict else form(names.values())
    backbone = keras.Model(inputs, keras.layers.Concatenate()([a, b]))
    model = models.Classifier(backbone, CLASSES, seed=0)
    model.compile("sgd", run_eagerly=True)
    values = {"a": TABLE, "b": TABLE[:, :2]}
    x = values if form is dict else form(values.values())
    model.fit(x, LABELS, verbose=0)
    answer = model.predict_uncertainty(x)["probs"]
    tensors = values if form is dict else tuple(values.values())
    for data in (dataset(tensors, LABELS), tf.data.Dataset.from_tensor_slices(tensors)):
        np.testing.assert_allclose(model.predict_uncertainty(data)["probs"], answer, atol=1e-6)
    with pytest.raises(ValueError, match="x: expected a"):
        model.predict_uncertainty({"a": TABLE, "c": TABLE})
    values["b"] = values["b"][:3]
    with pytest.raises(ValueError, match="of the same length"):
        model.predict_uncertainty(values if form is dict else form(values.values()))
