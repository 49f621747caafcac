"""Every kind of input and every model class: fit, predict, save, load, export.

By default all kinds with one class and all classes with one kind; the whole product is slow.
"""

import json
import types

import keras
import numpy as np
import pytest
import scipy.special
import tensorflow as tf

from s2d_tf import export, layers, losses, models

CLASSES, N = 3, 12
LABELS = np.arange(N) % CLASSES
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


def strings(random):
    x = keras.Input([], dtype="string", name="texts")
    split = keras.layers.TextVectorization(output_sequence_length=4, vocabulary=WORDS)
    network = keras.Model(x, features(embedded(split(x), len(WORDS) + 2)))
    return network, np.array([" ".join(random.choice(WORDS, 3)) for _ in range(N)])


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
    "table": (table, {"inputs": "float32"}),
    "two_named": (two_named, {"a": "float32", "b": "int32"}),
}


def student(backbone, **kwargs):
    teacher = models.S2DClassifier(keras.models.clone_model(backbone), CLASSES, seed=1)
    objective = losses.NormalKLDivergence()
    return models.Student(backbone, CLASSES, objective, num_draws=4, **kwargs).learn_from(teacher)


MODELS = {  # what is trained, and what is made of it
    "classifier": (models.Classifier, lambda model: model),
    "s2d": (models.S2DClassifier, lambda model: model),
    "student": (lambda *args, **kwargs: student(args[0], **kwargs), lambda model: model),
    "dropout": (models.Classifier, lambda model: models.MonteCarloDropout(model, 2)),
    "swag": (models.Classifier, lambda model: models.SWAG(model, 2)),
    "ensemble": (models.Classifier, lambda model: models.Ensemble([model, model])),
    "cast": (
        lambda backbone, classes, **kwargs: models.S2DClassifier.from_classifier(
            keras.Model(
                backbone.input,
                keras.layers.Dense(classes, kernel_initializer=keras.initializers.Ones())(
                    backbone.output
                ),
            ),
            **kwargs,
        ),
        lambda model: model,
    ),
}
KIND_OF_CLASSES, CLASS_OF_KINDS = "table", "s2d"
DEFAULT = {(kind, CLASS_OF_KINDS) for kind in KINDS} | {(KIND_OF_CLASSES, name) for name in MODELS}


def fitted(kind, name):
    backbone, inputs = KINDS[kind][0](np.random.default_rng(0))
    train, draw = MODELS[name]
    network = train(backbone, CLASSES, seed=0)
    network.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    start = network.head.kernel.numpy()
    history = network.fit(inputs, LABELS, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert not np.array_equal(start, network.head.kernel)
    return types.SimpleNamespace(network=network, model=draw(network), inputs=inputs, draw=draw)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        pytest.param(kind, name, marks=() if (kind, name) in DEFAULT else pytest.mark.slow)
        for kind in KINDS
        for name in MODELS
    ],
)
def test_fit_predict_save_load_export(kind, name, tmp_path):
    made = fitted(kind, name)
    answer = made.model.predict_uncertainty(made.inputs)
    if name in ("classifier", "s2d", "cast"):
        plain = made.network.backbone.predict(made.inputs, verbose=0) if kind != "strings" else None
        if plain is not None:
            logits = plain @ made.network.head.kernel[0] + made.network.head.bias[0]
            expected = scipy.special.softmax(logits, axis=-1)
            np.testing.assert_allclose(answer["probs"], expected, rtol=1e-4, atol=1e-6)

    made.network.save(tmp_path / "network.keras")
    loaded = keras.models.load_model(tmp_path / "network.keras")
    assert loaded.contract.to_dict() == made.network.contract.to_dict()
    twin = made.draw(loaded)
    made.model.save_weights(tmp_path / "model.weights.h5")
    twin.load_weights(tmp_path / "model.weights.h5")
    again = twin.predict_uncertainty(made.inputs, batch_size=5)
    for key, value in answer.items():
        np.testing.assert_allclose(again[key], value, rtol=1e-4, atol=1e-5)

    path = export.save(made.model, tmp_path / "exported")
    (function,) = {
        signature
        for key, signature in tf.saved_model.load(str(path)).signatures.items()
        if key == "serving_default"
    }
    specs = function.structured_input_signature[1]
    assert {key: spec.dtype.name for key, spec in specs.items()} == KINDS[kind][1]
    inputs = made.inputs if isinstance(made.inputs, dict) else {next(iter(specs)): made.inputs}
    tensors = {
        key: tf.constant(value if value.dtype.kind == "U" else value.astype(KINDS[kind][1][key]))
        for key, value in inputs.items()
    }
    served = function(**tensors)
    np.testing.assert_allclose(served["probabilities"], answer["probs"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(
        served["knowledge_uncertainty"], answer["knowledge"], rtol=1e-3, atol=1e-5
    )
    description = json.loads((path / "assets" / "model.json").read_text())
    assert description["inputs"] == made.model.contract.to_dict()


def portable_onnx(path):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path / "model.onnx"))
    names = [output.name for output in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(None, inputs), strict=True))


def portable_litert(path):
    from ai_edge_litert import interpreter as litert

    interpreter = litert.Interpreter(
        str(path / "model.tflite"),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    return interpreter.get_signature_runner("serving_default")


PORTABLE = {
    "onnx": (export.save_onnx, portable_onnx),
    "litert": (export.save_litert, portable_litert),
}


def needs(form):
    packages = {"onnx": ("tf2onnx", "onnxruntime"), "litert": ("ai_edge_litert.interpreter",)}
    for package in packages[form]:
        pytest.importorskip(package, reason=f"needs the extra s2d_tf[{form}]")


@pytest.mark.parametrize("form", PORTABLE)
@pytest.mark.parametrize(
    "kind",
    [
        *("tokens", "two_named"),
        *(pytest.param(k, marks=pytest.mark.slow) for k in ("image", "free_size_image", "table")),
    ],
)
def test_other_runtimes_give_the_same_answers(kind, form, tmp_path):
    needs(form)
    backbone, inputs = KINDS[kind][0](np.random.default_rng(0))
    pixels = (0, 255) if kind == "image" else None
    model = models.S2DClassifier(backbone, CLASSES, input_range=pixels, seed=0)
    save, load = PORTABLE[form]
    run = load(save(model, tmp_path / "model"))
    named = inputs if isinstance(inputs, dict) else {next(iter(KINDS[kind][1])): inputs}
    named = {name: value.astype(KINDS[kind][1][name]) for name, value in named.items()}
    given = named if isinstance(inputs, dict) else next(iter(named.values()))
    expected = model.predict_uncertainty(given)
    for size in (1, N):
        found = run(**{name: value[:size] for name, value in named.items()})
        for name, key in (("probabilities", "probs"), ("knowledge_uncertainty", "knowledge")):
            np.testing.assert_allclose(found[name], expected[key][:size], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("form", PORTABLE)
def test_what_another_runtime_cannot_do_is_said_in_one_line(form, tmp_path):
    needs(form)
    backbone, _ = strings(np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"neither ONNX nor LiteRT .* the texts \['texts'\]"):
        PORTABLE[form][0](models.S2DClassifier(backbone, CLASSES), tmp_path / "model")
    x = keras.Input([2], dtype="int64", name="ids")
    found = keras.layers.IntegerLookup(vocabulary=[3, 5, 7])(x)
    model = models.S2DClassifier(keras.Model(x, embedded(found, 4)), CLASSES)
    with pytest.raises(
        ValueError, match=r"received .*LookupTableFind.*Export a SavedModel"
    ) as caught:
        PORTABLE[form][0](model, tmp_path / "model")
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "model" / "1").exists()
