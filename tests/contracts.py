"""What every layer, loss and predictor promises, whatever it computes: one check for each kind."""

import inspect
import json
import pathlib
import tempfile

import keras
import numpy as np
import tensorflow as tf

from s2d_tf import models, uncertainty

HALF_AND_DOUBLE = ("mixed_float16", "mixed_bfloat16", "float64")


def run_serialization_test(thing, left_out=()):
    """Checks that the config is complete and survives JSON under the registered name.

    Returns the copy. `left_out` names arguments that the config has in another form.
    """
    config = json.dumps(thing.get_config())  # Tuples come back as lists.
    parameters = inspect.signature(type(thing).__init__).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    arguments = {each.name for each in parameters if each.kind not in variadic} - {"self"}
    assert arguments - set(left_out) <= set(json.loads(config))
    written = json.dumps(keras.saving.serialize_keras_object(thing))
    package = type(thing).__module__.split(".")[0]
    assert json.loads(written)["registered_name"] == f"{package}>{type(thing).__name__}"
    again = keras.saving.deserialize_keras_object(json.loads(written))
    for copy in (type(thing).from_config(thing.get_config()), again):
        assert type(copy) is type(thing)
        assert json.dumps(copy.get_config()) == config
    return again


def reloaded(model):
    """The model from a `.keras` file."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(pathlib.Path(folder) / "model.keras")
        return keras.models.load_model(pathlib.Path(folder) / "model.keras")


def assert_same(found, expected, **tolerance):
    """Equal tensors in equal structures: to the bit where no tolerance is given."""
    pairs = zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True)
    for one, other in pairs:
        np.testing.assert_allclose(one, other, **{"rtol": 0, "atol": 0, **tolerance})


def run_layer_test(
    cls, arguments, inputs, shape, num_trainable=0, policies=HALF_AND_DOUBLE, rtol=1e-6, **call
):
    """Config, file, shapes, weights, eager = graph, gradients and precision of a layer.

    Args:
        inputs: an array, or the tuple of all arguments of `call`; `**call` are its options.
        shape: of the outputs, `None` for an axis of free size, which inputs then have too.
        num_trainable: the number of trainable weights.
        policies: precisions in which outputs have the compute dtype and are about the same.
        rtol: how far graph execution may be from eager.
    """
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    values = np.random.default_rng(0)

    def functional(layer):
        free = (None,) if shape[0] is None else ()
        symbols = keras.tree.map_structure(
            lambda x: keras.Input(batch_shape=(*free, *x.shape[len(free) :]), dtype=str(x.dtype)),
            inputs,
        )
        return keras.Model(keras.tree.flatten(symbols), layer(*symbols, **call))

    layer = cls(**arguments)
    copy = run_serialization_test(layer)
    model = functional(layer)
    assert model.output_shape == shape
    assert len(layer.trainable_weights) == num_trainable
    layer.set_weights([values.uniform(0.5, 2.0, weight.shape) for weight in layer.weights])
    loaded, weights = reloaded(model), layer.get_weights()
    functional(copy)
    copy.set_weights(weights)

    outputs = layer(*inputs, **call)
    assert outputs.dtype == layer.compute_dtype
    assert all(a in (None, b) for a, b in zip(shape, outputs.shape, strict=True))
    assert_same(loaded(keras.tree.flatten(inputs)), outputs)
    assert_same(tf.function(copy)(*inputs, **call), outputs, rtol=rtol, atol=rtol)

    tensors = keras.tree.map_structure(tf.convert_to_tensor, inputs)
    sources = keras.tree.flatten(tensors) + [weight.value for weight in layer.trainable_weights]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        received = layer(*tensors, **call)
        value = tf.reduce_sum(received * tf.cast(values.normal(size=outputs.shape), received.dtype))
    for gradient in tape.gradient(value, sources):
        assert gradient is not None
        assert np.isfinite(gradient).all()
        assert np.any(gradient)

    for policy in policies:
        other = cls(**arguments, dtype=policy)
        functional(other)
        other.set_weights(weights)
        received = other(*inputs, **call)
        assert received.dtype == other.compute_dtype == keras.DTypePolicy(policy).compute_dtype
        assert {weight.dtype for weight in other.weights} <= {other.variable_dtype}
        assert_same(tf.cast(received, tf.float32), outputs, rtol=0.02, atol=0.02)


def run_loss_test(cls, arguments, y_true, y_pred, rows):
    """Config, file, reductions, weights, eager = graph, gradient and precision of a loss.

    `rows` are the values of the single examples, from an oracle.
    """
    for dtype in ("float32", "float64"):
        loss = cls(**arguments, reduction="sum", name="mine", dtype=dtype)
        copy = run_serialization_test(loss)
        assert (copy.name, copy.dtype, copy(y_true, y_pred).dtype) == ("mine", dtype, dtype)
        assert_same(copy(y_true, y_pred), loss(y_true, y_pred))

    model = keras.Sequential([keras.Input(y_pred.shape[1:]), keras.layers.Identity()])
    model.compile(loss=cls(**arguments))
    assert_same(reloaded(model).loss(y_true, y_pred), model.loss(y_true, y_pred))

    weights = np.linspace(0.0, 2.0, len(rows)).astype(np.float32)
    for reduction, reduced in (("none", np.array), ("sum", np.sum), (None, np.mean)):
        loss = cls(**arguments, **({"reduction": reduction} if reduction else {}))
        value = loss(y_true, y_pred)
        assert_same(value, reduced(rows), rtol=1e-5)
        assert_same(loss(y_true, y_pred, weights), reduced(weights * rows), rtol=1e-5)
    assert_same(tf.function(loss)(y_true, y_pred), value, rtol=1e-6)
    for policy in ("mixed_float16", "mixed_bfloat16"):
        keras.config.set_dtype_policy(policy)
        value = cls(**arguments)(y_true, y_pred)
        assert value.dtype == tf.float32
        assert_same(value, np.mean(rows), rtol=1e-5)
    keras.config.set_dtype_policy("float32")

    exact, step = cls(**arguments, reduction="sum", dtype="float64"), 1e-5
    student = tf.constant(y_pred, tf.float64)
    direction = np.random.default_rng(0).normal(size=y_pred.shape)
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = exact(y_true, student)
    slope = np.sum(tape.gradient(value, student) * direction)
    ahead, behind = (exact(y_true, student + sign * step * direction) for sign in (1, -1))
    assert_same((ahead - behind) / (2 * step), slope, rtol=1e-4, atol=1e-5)


def run_saving_test(model, inputs):
    """Config, weights file and `.keras` file of a model with a config. Returns the loaded model."""
    copy = run_serialization_test(model, left_out=("input_range",))
    with tempfile.TemporaryDirectory() as folder:
        model.save_weights(pathlib.Path(folder) / "model.weights.h5")
        copy.load_weights(pathlib.Path(folder) / "model.weights.h5")
    loaded = reloaded(model)
    assert type(loaded) is type(model)
    assert json.dumps(loaded.get_config()) == json.dumps(model.get_config())
    assert loaded.contract == model.contract == keras.models.clone_model(model).contract
    for other in (copy, loaded):
        assert (other.kind, other.num_members) == (model.kind, model.num_members)
        assert_same(other(inputs), model(inputs))
        assert_same(other.member_logits(inputs), model.member_logits(inputs))
    return loaded


def run_predictor_test(make, inputs):
    """What a predictor declares and answers, by batches of any size, before and after files.

    `make()` returns a new predictor of the same kind each time.
    """
    model, twin = make(), make()
    kind, members = model.predict_members(inputs)
    size = len(keras.tree.flatten(inputs)[0])
    assert isinstance(model, models.Predictor)
    assert kind == model.kind
    assert members.shape == (model.num_members, size, model.num_classes)
    assert members.dtype == np.float32
    assert model.decomposes == uncertainty.decomposes(kind, model.num_members)

    answer = model.predict_uncertainty(inputs)
    assert_same(answer.pop("label"), answer["probs"].argmax(axis=-1))
    assert list(answer) == ["probs", "confidence", "total", "data", "knowledge"]
    assert all(value.dtype == np.float32 and np.all(value >= 0) for value in answer.values())
    assert answer["probs"].shape == (size, model.num_classes)
    assert_same(answer["probs"].sum(axis=-1), np.ones(size), atol=1e-6)
    assert_same(answer["confidence"], answer["probs"].max(axis=-1))
    assert_same(answer["total"], answer["data"] + answer["knowledge"], atol=1e-6)
    if not model.decomposes:
        assert_same(answer["data"], answer["total"])
        assert not np.any(answer["knowledge"])

    assert_same(model.member_logits(inputs), model.member_logits(inputs))
    near = {"rtol": 1e-5, "atol": 1e-5}
    assert_same(model.predict_members(inputs, batch_size=2)[1], members, **near)
    assert_same(model.predict_members(inputs)[1], members)  # also after others, to the bit
    for name, value in model.predict_uncertainty(inputs, batch_size=1).items():
        assert_same(value, answer.get(name, value), **near)
    found = []
    for predictor in model.cached_predictors:
        found.append(predictor.member_logits(inputs))
        raw = predictor.raw_outputs(inputs)
        assert_same(predictor.members_from_raw(raw), found[-1], rtol=1e-6, atol=1e-6)
    assert_same(np.concatenate(found), members, **near)

    twin.set_weights([weight + 1 for weight in model.get_weights()])
    with tempfile.TemporaryDirectory() as folder:
        model.save_weights(pathlib.Path(folder) / "model.weights.h5")
        twin.load_weights(pathlib.Path(folder) / "model.weights.h5")
    assert_same(twin.member_logits(inputs), model.member_logits(inputs))
    if isinstance(model, models.Classifier):
        run_saving_test(model, inputs)
