"""What every predictor declares and answers, so that nobody has to test its type."""

import concurrent.futures
import functools
import inspect
import sys
import threading

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import backbones, export, layers, losses, models, posthoc, zoo
from tests import contracts
from tests.models import tiny
from tests.models.tiny import CLASSES, IMAGES, LABELS, backbone


@pytest.fixture(scope="module")
def model():
    return models.S2DClassifier(backbone(), CLASSES, mean=[128.0], stddev=[64.0], seed=0)


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
    "batched_dropping": lambda: slices(IMAGES, LABELS).batch(12, drop_remainder=True),
    "weighted": lambda: slices(IMAGES, LABELS, np.ones(12)).batch(3),
}


@pytest.mark.parametrize("name", sorted(INPUTS))
def test_any_form_of_input_gives_the_same_answer(model, name):
    expected = model.predict_uncertainty(IMAGES)
    answer = model.predict_uncertainty(INPUTS[name](), batch_size=4)
    assert answer.keys() == expected.keys()
    contracts.assert_same(dict(answer), dict(expected), atol=1e-6)
    kind, members = model.predict_members(INPUTS[name](), batch_size=4)
    assert (kind, members.shape, members.dtype) == ("dirichlet", (1, 12, CLASSES), np.float32)


def test_answers_follow_weights_layers_and_compile():
    model = models.S2DClassifier(backbone(), CLASSES, mean=[128.0], stddev=[64.0], seed=0)
    before = model.predict_members(IMAGES)[1]
    kernel = model.head.kernel.numpy()
    model.head.kernel.assign(2 * kernel)
    np.testing.assert_allclose(model.predict_members(IMAGES)[1], 2 * before, rtol=1e-4, atol=1e-5)
    model.head = layers.Head(CLASSES, kernel_initializer="zeros")  # other variables
    model.head.build((None, 1, 1, kernel.shape[1]))
    assert not model.predict_members(IMAGES)[1].any()


def train_lora(model):
    model.backbone.layers[2].enable_lora(2)
    model.compile(keras.optimizers.SGD(1.0))
    model.fit(IMAGES, LABELS, epochs=2, verbose=0)


def set_integers(model):
    model.quantize("int8")
    model.predict_members(IMAGES)
    next(each for each in model.variables if each.dtype == "int8").assign(np.zeros([64, 6]))


CHANGES = {
    "mean": lambda model: setattr(model, "mean", (0.0,)),
    "activation": lambda model: setattr(model.backbone.layers[2], "activation", keras.ops.relu),
    "lora": train_lora,
    "integers": set_integers,
}


@pytest.mark.filterwarnings("ignore:Layer .* does not have a `quantize`")
@pytest.mark.parametrize("name", CHANGES)
def test_answers_follow_the_structure_also_through_other_predictors(name):
    model = models.Classifier(backbone(), CLASSES, mean=[128.0], stddev=[64.0], seed=0)
    asked = [model, models.Ensemble([model]), posthoc.MSP().fit(model)]
    before, *_ = [each.predict_members(IMAGES)[1] for each in asked]
    CHANGES[name](model)
    expected = model(IMAGES)[None].numpy()
    assert np.abs(expected - before).max() > 1e-3
    for each in asked:
        contracts.assert_same(each.predict_members(IMAGES)[1], expected, atol=1e-6)


def test_answers_beside_training_come_from_the_weights_of_one_step():
    dense = [keras.layers.Dense(256, "relu") for _ in range(6)]
    deep = keras.Sequential([keras.Input([8, 8, 1]), keras.layers.Flatten(), *dense])
    model = models.Classifier(deep, CLASSES, seed=0, input_range=(0, 255))
    model.compile(keras.optimizers.SGD(1e-4))
    many, weights, done = np.repeat(IMAGES, 20, axis=0), [model.get_weights()], threading.Event()
    answers = [model.predict_members(many)[1]]

    def predict():
        while not done.is_set():
            answers.append(model.predict_members(many)[1])

    with concurrent.futures.ThreadPoolExecutor() as pool:
        predicting = pool.submit(predict)
        for _ in range(30):
            model.train_on_batch(IMAGES, LABELS)
            weights.append(model.get_weights())
        done.set()
        predicting.result()
    possible = set()
    for each in weights:
        model.set_weights(each)
        possible.add(model.predict_members(many)[1].tobytes())
    assert len({each.tobytes() for each in answers}) > 2
    assert {each.tobytes() for each in answers} <= possible


def test_a_generator_may_predict_with_the_model_that_it_feeds():
    model = tiny.compiled()
    chosen = (model.predict_uncertainty(IMAGES)["confidence"].argsort()[:6] for _ in range(3))
    data = ((IMAGES[rows], LABELS[rows]) for rows in chosen)
    fitting = threading.Thread(target=lambda: model.fit(data, verbose=0), daemon=True)
    fitting.start()
    fitting.join(timeout=60)
    assert int(model.optimizer.iterations) == 3


def test_answers_that_are_no_numbers_are_said_and_not_exported(tmp_path):
    model = models.S2DClassifier(backbone(), CLASSES, mean=[128.0], stddev=[64.0], seed=0)
    model.predict_uncertainty(IMAGES)
    model.head.kernel.assign(np.nan * model.head.kernel)
    with pytest.warns(UserWarning, match="received NaN for 12 of 12 examples"):
        model.predict_uncertainty(IMAGES)
    for save in (export.save, lambda *where: export.save_litert(where[0], where[1] / "m.tflite")):
        with pytest.raises(ValueError, match=r"finite weights, received NaN .* in '.*head"):
            save(model, tmp_path)
    assert not list(tmp_path.iterdir())


def test_weights_of_any_type_are_looked_at_before_an_export(tmp_path):
    x = keras.Input([5])
    nan = keras.initializers.Constant(np.nan)
    dense = keras.layers.Dense(4, dtype="bfloat16", kernel_initializer=nan)
    model = models.Classifier(keras.Model(x, dense(x)), CLASSES)
    with pytest.raises(ValueError, match="expected finite weights, received NaN"):
        export.save(model, tmp_path)


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


WAYS = {  # a call, and how many functions in how many files it may enter the second time
    # (those of `zoo.load` without the network's own constructors)
    "predict_uncertainty": (lambda model, _: model.predict_uncertainty(IMAGES), 14, 5),
    "score": (lambda _, detector: detector.score(IMAGES), 14, 5),
    "zoo.load": (lambda *_: zoo.load("wrn_10_2_s2.s2d.digits"), 30, 7),
}


@pytest.mark.parametrize("name", WAYS)
def test_the_way_from_a_call_to_the_graph_is_short(model, name):
    call, functions, files = WAYS[name]
    detector = posthoc.Mahalanobis().fit(model, (IMAGES, LABELS))
    call(model, detector)
    seen = entered(lambda: call(model, detector))
    if name == "zoo.load":
        seen = {(file, code) for file, code in seen if file.startswith(("zoo/", "files/"))}
    print(f"{name}: {len(seen)} functions", *sorted(seen), sep="\n")
    assert len(seen) <= functions
    assert len({file for file, _ in seen}) <= files


PAIRS = np.random.default_rng(0).integers(0, 256, [5, 8, 8, 2]).astype(np.uint8)


def network(cls=models.Classifier, **kwargs):
    images = keras.Input([8, 8, 2])
    x = keras.layers.BatchNormalization()(keras.layers.Flatten()(images))
    x = keras.layers.Dense(4, kernel_initializer=keras.initializers.GlorotUniform(1))(x)
    return cls(keras.Model(images, layers.Dropout(0.5, seed=7)(x)), CLASSES, seed=0, **kwargs)


student = functools.partial(network, models.Student, num_draws=6)
ONE = 2 * 128 + 128 * 4 + 4 + 4 * CLASSES + CLASSES
PREDICTORS = {  # members, parameters, networks, parts, rows of raw outputs, decomposes
    "plain": (network, 1, ONE, 1, 1, 1, False),
    "s2d": (lambda: network(models.S2DClassifier), 1, ONE, 1, 1, 1, True),
    "mimo": (
        lambda: network(num_heads=2, mean=[128.0], stddev=[64.0]),
        *(2, ONE + 4 * CLASSES + CLASSES, 1, 1, 2, True),
    ),
    "end": (lambda: student(objective=losses.SoftCrossEntropy()), 1, ONE, 1, 1, 1, False),
    "gaussian": (
        lambda: student(objective=losses.NormalKLDivergence()),
        *(6, ONE + 4 * CLASSES + CLASSES, 1, 1, 2, True),
    ),
    "dropout": (lambda: models.MonteCarloDropout(network(), 3), 3, ONE, 1, 1, 3, True),
    "swag": (lambda: models.SWAG(network(), 3), 3, 2 * ONE, 1, 1, 3, True),
    "ensemble": (
        lambda: models.Ensemble([network(), models.MonteCarloDropout(network(), 2)]),
        *(3, 2 * ONE, 2, 2, 3, True),
    ),
}


@pytest.mark.parametrize("name", PREDICTORS)
def test_every_predictor_declares_its_facts(name):
    make, members, parameters, networks, parts, rows, decomposes = PREDICTORS[name]
    model = make()
    images = PAIRS[..., : model.image_shape[-1]]
    contracts.run_predictor_test(make, images)
    assert (model.num_members, model.num_parameters) == (members, parameters)
    assert (len(model.networks), len(model.cached_predictors)) == (networks, parts)
    assert (model.decomposes, model.class_names, model.metadata) == (decomposes, None, None)
    assert len(keras.tree.flatten(model.predict(images, 2, verbose=0))[0]) == len(images)
    with pytest.raises(ValueError, match="received NaN"):
        model.predict(np.nan * images, verbose=0)
    assert sum(len(part.raw_outputs(images)) for part in model.cached_predictors) == rows


class TestUnfittedStem:
    IMAGES = np.random.default_rng(1).integers(0, 256, [12, 16, 16, 3]).astype(np.uint8)
    LABELS = np.arange(12) % CLASSES

    @pytest.fixture
    def model(self):
        backbone = backbones.fast_resnet(input_shape=(16, 16, 3), width=0.125, seed=0)
        return models.Classifier(backbone, CLASSES, mean=[120.0] * 3, stddev=[60.0] * 3, seed=0)

    def test_prediction_and_export_say_what_to_do(self, model, tmp_path):
        message = r"not fitted\. Call model\.adapt\(images\), fit the model, or load weights"
        for predictor in (model, models.Ensemble([model])):
            with pytest.raises(ValueError, match=message):
                predictor.predict_members(self.IMAGES)
            with pytest.raises(ValueError, match=message):
                predictor.predict_uncertainty(self.IMAGES)
            with pytest.raises(ValueError, match=message):
                export.save(predictor, tmp_path / "model")
        with pytest.raises(ValueError, match=r"Call model\.adapt"):
            model.fit(pair for pair in [(self.IMAGES, self.LABELS)])  # it cannot look ahead

    @pytest.mark.parametrize("form", ["arrays", "dataset"])
    def test_fit_adapts_it_to_the_first_images(self, model, form, monkeypatch):
        stem, trained = model.backbone.get_layer("stem"), []
        monkeypatch.setattr(keras.Model, "fit", lambda self, x, y, **_: trained.append(x))
        data = tf.data.Dataset.from_tensor_slices((self.IMAGES, self.LABELS))
        model.fit(*((self.IMAGES, self.LABELS) if form == "arrays" else (data.batch(5),)))
        assert len(trained) == 1
        found = stem.kernel.numpy()
        stem.kernel.assign(tf.zeros_like(stem.kernel))
        model.adapt(self.IMAGES)
        np.testing.assert_allclose(found, stem.kernel, atol=1e-6)
        assert model.predict_uncertainty(self.IMAGES)["total"].shape == (12,)


def test_it_shows_keras_arguments_and_its_classes_only():
    for name in ("fit", "evaluate", "compile", "predict"):
        keras_own = inspect.signature(getattr(keras.Model, name)).parameters.values()
        own = inspect.signature(getattr(models.S2DClassifier, name)).parameters.values()
        assert [(p.name, p.default) for p in own] == [(p.name, p.default) for p in keras_own]
    assert dir(models) == sorted(models.__all__)
    assert {type(getattr(models, name)) for name in dir(models)} <= {type}


@pytest.mark.parametrize("kind", [tiny.s2d, lambda: models.Ensemble([tiny.s2d(), tiny.s2d()])])
def test_it_is_exported_and_summarized_as_any_keras_model(kind, tmp_path):
    model, lines = kind(), []
    assert model.input.shape == model.input_shape == (None, 8, 8, 1)
    assert [tensor.name for tensor in model.inputs] == ["images"]
    model.export(tmp_path, verbose=False)
    images = tf.cast(tiny.IMAGES, tf.float32)
    functional, loaded = keras.Model(model.input, model(model.input)), tf.saved_model.load(tmp_path)
    for same in (loaded.serve, functional):
        np.testing.assert_allclose(same(images), model(images), rtol=1e-4, atol=1e-5)
    model.summary(print_fn=lines.append)
    assert "unbuilt" not in "".join(lines)
    assert "predict_uncertainty: class probabilities" in "".join(lines)


def test_a_dict_of_named_inputs_is_taken_for_a_list():
    a, b = keras.Input([4], name="a"), keras.Input([3], name="b")
    model = models.Classifier(keras.Model([a, b], keras.layers.Concatenate()([a, b])), 3, seed=0)
    rows = {"b": np.ones([6, 3], np.float32), "a": np.zeros([6, 4], np.float32)}
    model.compile("sgd")
    model.fit(rows, np.arange(6) % 3, verbose=0)
    found = model.predict_uncertainty([rows["a"], rows["b"]])["probs"]
    labeled = tf.data.Dataset.from_tensor_slices((rows, np.arange(6))).batch(6)
    for same in (rows, (rows, np.arange(6)), labeled):
        np.testing.assert_array_equal(model.predict_uncertainty(same)["probs"], found)
