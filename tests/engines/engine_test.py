"""Whatever computes, the answers are the same; and they are never those of old weights."""

import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import engines, models
from s2d_tf.engines import engine, runtimes
from s2d_tf.engines.watching import Watch

CLASSES = 3
IMAGES = np.random.default_rng(0).integers(0, 256, [11, 8, 8, 1]).astype(np.uint8)
EVERY = [
    pytest.param(
        name,
        marks=pytest.mark.skipif(
            name not in runtimes.available(), reason=f"needs the extra s2d_tf[{name}]"
        ),
    )
    for name in runtimes.RUNTIMES
]


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("S2D_CACHE_DIR", str(tmp_path))
    return tmp_path / "engines"


def network(seed=0):
    images = keras.Input([8, 8, 1])
    x = keras.layers.Conv2D(8, 3, 2, kernel_initializer=keras.initializers.HeNormal(seed))(images)
    x = keras.layers.ReLU()(keras.layers.BatchNormalization()(x))
    backbone = keras.Model(images, keras.layers.Flatten()(x))
    return models.S2DClassifier(backbone, CLASSES, mean=[128.0], stddev=[64.0], seed=seed)


@pytest.fixture
def model():
    return network()


def reference(model):
    """Without any graph."""
    from s2d_tf import uncertainty

    found = uncertainty.from_members(model.kind, model.member_logits(IMAGES.astype(np.float32)))
    return {key: value.numpy() for key, value in found.items()}


@pytest.mark.parametrize("name", EVERY)
def test_every_engine_answers_alike(model, name):
    answers = model.predict_uncertainty(IMAGES, batch_size=5, engine=name)
    assert model.engine_used == name
    for key, value in reference(model).items():
        np.testing.assert_allclose(answers[key], value, rtol=1e-5, atol=1e-5)
    kind, members = model.predict_members(IMAGES, batch_size=5, engine=name)
    assert (kind, members.shape) == ("dirichlet", (1, 11, CLASSES))
    assert model.predict_raw(IMAGES, engine=name).dtype == np.float32


def test_ensembles_take_the_same_path(model):
    ensemble = models.Ensemble([model, network(1)])
    answers = ensemble.predict_uncertainty(IMAGES, engine="xla")
    for key, value in reference(ensemble).items():
        np.testing.assert_allclose(answers[key], value, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("jit_compile", "beside"), [(False, 1000), (True, 1000), (False, 0)])
def test_training_is_noticed(model, jit_compile, beside, monkeypatch):
    monkeypatch.setattr(engine, "BESIDE", beside)
    model.compile(keras.optimizers.SGD(0.5, momentum=0.9), jit_compile=jit_compile)
    for _ in range(2):
        model.fit(IMAGES, np.arange(11) % CLASSES, verbose=0)
        answers = model.predict_uncertainty(IMAGES, engine="tensorflow")
        for key, value in reference(model).items():
            np.testing.assert_allclose(answers[key], value, rtol=1e-5, atol=1e-5)


def test_whoever_promises_that_no_weight_changes_is_believed(model):
    before = model.predict_uncertainty(IMAGES, engine="tensorflow")
    model.weights[0].assign(-model.weights[0])
    try:
        engines.use("auto", watch=False)
        old = model.predict_uncertainty(IMAGES, engine="tensorflow")
        np.testing.assert_array_equal(old["probs"], before["probs"])
    finally:
        engines.use("auto")
    new = model.predict_uncertainty(IMAGES, engine="tensorflow")
    np.testing.assert_allclose(new["probs"], reference(model)["probs"], atol=1e-5)
    assert abs(new["probs"] - old["probs"]).max() > 1e-3


def test_every_kind_of_assignment_is_noticed():
    variables = [tf.Variable(tf.zeros([4, 4])) for _ in range(3)]
    one = variables[1]

    @tf.function
    def in_graph():
        one.assign_sub(tf.ones([4, 4]))

    updates = [
        lambda: one.assign(tf.ones([4, 4])),
        lambda: one.assign_add(tf.ones([4, 4])),
        in_graph,
        lambda: tf.raw_ops.ResourceApplyGradientDescent(
            var=one.handle, alpha=0.5, delta=tf.ones([4, 4])
        ),
        lambda: one.scatter_nd_update([[0, 0]], [7.0]),  # and from now on it is copied when read
        lambda: one.assign_add(tf.ones([4, 4])),
    ]
    for update in updates:
        watch = Watch(variables)
        assert not watch.changed()
        update()
        assert watch.changed()
    assert not Watch([]).changed()


def test_compiling_waits_until_it_pays(model, monkeypatch, own_cache):
    model.predict_uncertainty(IMAGES[:1])
    assert model.engine_used == "tensorflow"
    computes = model.engine()
    assert not computes._built
    # As if this had been going on for hours.
    computes._spent[1] = 1e6
    monkeypatch.setattr(runtimes, "available", lambda: ["tensorflow", "xla"])
    before = model.predict_uncertainty(IMAGES[:1])
    assert computes._chosen.keys() == {1}
    assert set(computes._built) == {computes._chosen[1]}  # The other's memory is free again.
    after = model.predict_uncertainty(IMAGES[:1])
    assert model.engine_used == computes._chosen[1]
    for key in before:
        np.testing.assert_allclose(after[key], before[key], rtol=1e-5, atol=1e-5)
    model.predict_uncertainty(IMAGES[:2])
    assert computes._chosen.keys() == {1}  # Other sizes decide for themselves.
    # Another process knows the verdict.
    assert (own_cache / "fastest.json").is_file()
    again = network(1)
    again.engine()._spent[1] = 1e6
    again.predict_uncertainty(IMAGES[:1])
    assert set(again.engine()._built) == {computes._chosen[1]}


def test_a_damaged_record_of_verdicts_is_ignored(model, own_cache):
    own_cache.mkdir(parents=True)
    (own_cache / "fastest.json").write_text('{"x": [')
    seconds = model.engine().measure([IMAGES.astype(np.float32)])
    assert set(seconds) == set(runtimes.available())
    assert all(value > 0 for value in seconds.values())


@pytest.mark.parametrize(
    ("seconds", "held", "most"),
    [
        ({"a": 0.03, "b": 0.02, "c": 0.05, "d": 0.025}, {"b"}, 3),
        ({"a": 3.0, "b": 2.0, "c": 2.1, "d": 1.9}, {"d"}, 2),
        ({"a": 1.2, "b": 1.15, "c": 0.9, "d": 1.3}, {"c"}, 3),
    ],
)
def test_measuring_holds_only_what_may_be_the_fastest(model, monkeypatch, seconds, held, most):
    computes, at_once = model.engine(), []

    def shortest(run, tensors):
        at_once.append(len(computes._built))
        return seconds[run.name]

    def runtime(name):
        def run(tensors):
            return {}

        run.name = name
        return lambda call, specs: run

    monkeypatch.setattr(runtimes, "available", lambda: list(seconds))
    monkeypatch.setattr(runtimes, "RUNTIMES", {name: runtime(name) for name in seconds})
    monkeypatch.setattr(engine, "_shortest", shortest)
    assert computes.measure([IMAGES.astype(np.float32)]) == seconds
    assert set(computes._built) == held == set(computes._chosen.values())
    assert max(at_once) == most


def test_what_cannot_be_frozen_stays_as_it_was():
    spec = tf.TensorSpec([None, 2], tf.float32, name="x")
    computes = engines.Engine(lambda x: {"y": 2.0 * x, "constant": tf.ones([3])}, [spec])
    computes._spent[1] = 1e6
    for _ in range(2):
        np.testing.assert_array_equal(computes([np.ones([1, 2], np.float32)])["y"], [[2.0, 2.0]])
    assert computes.used == "tensorflow"
    assert not computes._chosen


def test_in_the_background(model):
    spec = tf.TensorSpec([None, 8, 8, 1], tf.float32, name="images")
    computes = engines.Engine(model._uncertainty, [spec], model.weights, background=True)
    computes._seconds = 0.0
    images = [IMAGES.astype(np.float32)]
    computes(images)
    ends = time.monotonic() + 120
    while not computes._chosen and time.monotonic() < ends:
        computes(images)
    assert computes._chosen
    for key, value in reference(model).items():
        np.testing.assert_allclose(computes(images)[key], value, rtol=1e-5, atol=1e-5)


def test_unknown_and_missing_engines(model, monkeypatch):
    with pytest.raises(ValueError, match=r"engine: expected one of .*'litert'\), received 'fast'"):
        model.predict_uncertainty(IMAGES, engine="fast")
    monkeypatch.setattr(runtimes, "available", lambda: ["tensorflow", "xla"])
    with pytest.raises(ValueError, match=r"which are installed, received 'onnx'"):
        model.predict_uncertainty(IMAGES, engine="onnx")


@pytest.mark.parametrize(("count", "size"), [(1, 1), (2, 4), (64, 64), (65, 256), (1000, 256)])
def test_padded_sizes(count, size):
    assert runtimes.padded_size(count) == size
