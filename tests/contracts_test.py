"""The shared checks can fail: each broken layer, loss and predictor is noticed where it should."""

import itertools

import keras
import numpy as np
import pytest
import tensorflow as tf
from scipy.special import log_softmax, softmax

from s2d_tf import losses, models
from tests import contracts

X = np.random.default_rng(0).normal(size=[5, 4]).astype(np.float32)
NUMBERS = itertools.count()
Loss, Student = losses.SoftCrossEntropy, models.Student


def broken(parent, members):
    """A registered subclass of which one thing is not as it should be."""
    made = type(f"Broken{next(NUMBERS)}", (parent,), members)
    return keras.saving.register_keras_serializable(package="tests")(made)


Layer = broken(keras.layers.PReLU, {})


def run(cls):
    if issubclass(cls, Layer):
        contracts.run_layer_test(cls, {"alpha_initializer": "ones"}, X, (None, 4), 1)
    elif issubclass(cls, Loss):
        rows = -4 * np.sum(softmax(X[::-1] / 2, axis=-1) * log_softmax(X / 2, axis=-1), axis=-1)
        contracts.run_loss_test(cls, {"temperature": 2.0}, X[::-1, None].copy(), X, rows)
    else:
        contracts.run_predictor_test(lambda: student(cls), X)


def student(cls):
    x = keras.Input([4])
    start = keras.initializers.GlorotUniform(seed=1)
    backbone = keras.Model(x, keras.layers.Dense(3, kernel_initializer=start)(x))
    options = {"num_draws": 4, "initial_scale": 0.7, "seed": 0, "input_range": (-9, 9)}
    return cls(backbone, 3, losses.NormalKLDivergence(), **options)


def call(parent, change, name="call"):
    return parent, {name: lambda self, *x: change(getattr(parent, name)(self, *x))}


def layer(change):
    # Not `*x`: Keras reads the arguments.
    return Layer, {"call": lambda self, x: change(Layer.call(self, x))}


def config(parent, change):
    return call(parent, change, "get_config")


def forgets(parent, name):
    return config(parent, lambda c: {key: c[key] for key in c if key != name})


def logits(change):
    return call(Student, change, "member_logits")


def graph_only():
    return 0.0 if tf.executing_eagerly() else 1.0


def without_contract(cls, config):
    config = {key: value for key, value in config.items() if key != "contract"}
    return Student.from_config.__func__(cls, config)


CASES = [
    ("arguments - set(left_out)", *forgets(Layer, "alpha_initializer")),
    (
        "copy.get_config()) == config",
        *config(Layer, lambda c: c | {"trainable": not c["trainable"]}),
    ),
    ("model.output_shape", Layer, {"compute_output_shape": lambda self, shape: (*shape, 9)}),
    ("len(layer.trainable_weights)", Layer, {"build": lambda self, _: setattr(self, "alpha", 3.0)}),
    ("assert_same(loaded(", Layer, {"load_own_variables": lambda self, store: None}),
    ("assert_same(tf.function(copy)", *layer(lambda y: y + graph_only())),
    ("gradient is not None", *layer(tf.stop_gradient)),
    ("np.isfinite(gradient)", *layer(lambda y: y + tf.sqrt(0 * y))),
    ("np.any(gradient)", *layer(lambda y: tf.stop_gradient(y) + 0 * y)),
    ("received.dtype == other", *layer(lambda y: tf.cast(y, tf.float32))),
    ("rtol=0.02", *layer(lambda y: y + float(y.dtype == tf.float16))),
    ("arguments - set(left_out)", *forgets(Loss, "temperature")),
    ("(copy.name, copy.dtype, copy", *config(Loss, lambda c: c | {"dtype": "float16"})),
    ("assert_same(value, reduced(rows)", *call(Loss, lambda rows: 1.001 * rows)),
    ("assert_same(tf.function(loss)", *call(Loss, lambda rows: rows + graph_only())),
    ("assert_same((ahead - behind)", *call(Loss, lambda y: 2 * y - tf.stop_gradient(y))),
    ("members.shape ==", *logits(lambda members: members[:2])),
    ("members.dtype", *logits(lambda members: tf.cast(members, tf.float16))),
    ("assert model.decomposes ==", Student, {"decomposes": False}),
    ("member_logits(inputs), model", *logits(lambda x: x + tf.random.normal([]))),
    ("batch_size=2", *logits(lambda x: x - tf.reduce_mean(x, axis=1, keepdims=True))),
    ("members_from_raw(raw), found", *logits(lambda members: members + 1)),
    ("assert_same(twin.member_logits", Student, {"load_weights": lambda self, path: None}),
    ("arguments - set(left_out)", *forgets(Student, "num_draws")),
    ("json.dumps(copy.get_config())", Student, {"from_config": classmethod(without_contract)}),
]


@pytest.mark.parametrize("cls", [Layer, Loss, Student])
def test_sound_ones_pass_and_others_have_to_be_registered(cls):
    run(cls)
    with pytest.raises(AssertionError, match="Unregistered"):
        contracts.run_serialization_test(student(type("Unregistered", (Student,), {})))


@pytest.mark.parametrize(("statement", "parent", "members"), CASES)
def test_broken_ones_are_noticed(statement, parent, members):
    with pytest.raises((AssertionError, ValueError)) as error:
        run(broken(parent, members))
    seen = [str(each.statement) for each in error.traceback if each.path.name == "contracts.py"]
    assert any(statement in each for each in seen), seen
