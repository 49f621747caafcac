"""Tiny models of every method, exported once for all tests of this folder."""

import functools
import types

import numpy as np
import pytest

from s2d_tf import export

# Outputs of a signature, and what `predict_uncertainty` calls them.
NAMES = {
    "probabilities": "probs",
    "confidence": "confidence",
    "total_uncertainty": "total",
    "data_uncertainty": "data",
    "knowledge_uncertainty": "knowledge",
}


def open_onnx(path):
    """A function from inputs by name to answers by name."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path))
    names = [output.name for output in session.get_outputs()]
    return lambda **inputs: dict(zip(names, session.run(None, inputs), strict=True))


def open_litert(path):
    """A function from inputs by name to answers by name."""
    import tensorflow as tf

    plain = tf.lite.experimental.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    interpreter = tf.lite.Interpreter(str(path), experimental_op_resolver_type=plain)
    return interpreter.get_signature_runner("serving_default")


def save_onnx(*args, **kwargs):
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    return export.save_onnx(*args, **kwargs)


# How to write a file, how to open it, and its name.
FORMATS = {
    "onnx": (save_onnx, open_onnx, "m.onnx"),
    "litert": (export.save_litert, open_litert, "m.tflite"),
}


def tiny(input_shape, dropout, seed, synchronized_batch_norm):
    """A backbone that is traced in a moment, with all that the methods make use of."""
    import keras

    from s2d_tf import layers
    from s2d_tf.backbones import batch_norm

    x = images = keras.Input(input_shape)
    for i, filters in enumerate((8, 32)):
        start = keras.initializers.HeNormal(seed + i)
        x = keras.layers.Conv2D(filters, 3, 2, kernel_initializer=start, name=f"conv{i}")(x)
        x = batch_norm.BatchNormalization(synchronized=synchronized_batch_norm, name=f"norm{i}")(x)
        x = keras.layers.ReLU()(x)
    x = layers.Dropout(dropout, seed=seed, name="dropout")(x)
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(x), name="tiny")


@pytest.fixture(scope="session")
def build_model():
    """Builds the predictor of a method on the digits, with random weights and statistics.

    S2D has a wide ResNet; the others a smaller network, since here they differ in all but that.
    """
    from s2d_tf import backbones
    from s2d_tf.zoo import networks, recipes

    network = {"backbone": "tiny", "arguments": {}}
    wide = {"arguments": {"depth": 10, "width": 1, "stem_stride": 2}}

    def make(method):
        recipe = recipes.resolve(f"wrn_10_2_s2.{method}.digits")
        small = wide if method == "s2d" else network
        draws = recipe.num_members if recipe.draws == "point" else 2
        recipe = recipe.replace(num_members=draws, model={"num_draws": 7}, **small)
        members = [recipe.member_recipe] * 2 if recipe.draws == "ensemble" else [recipe]
        members = [member.replace(**small) for member in members]
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backbones, "tiny", tiny, raising=False)
            built = [networks.build_network(each, seed) for seed, each in enumerate(members)]
        predictor = networks.build_predictor(recipe, built)
        _shake(predictor)
        return predictor

    return make


def _shake(model):
    """Moves every weight, so that no two are equal and no statistic is at its start."""
    random = np.random.RandomState(1)
    for weight in model.weights:
        if "seed" in weight.path:
            continue
        noise = random.normal(size=weight.shape)
        if any(part in weight.path for part in ("variance", "statistics", "stddev")):
            weight.assign(0.1 * np.abs(noise) + (0.0 if "stddev" in weight.path else 0.5))
        else:
            # The Gaussian's log-scales are exponents of exponents.
            scale = 0.003 if "scale_head" in weight.path else 0.1
            weight.assign(np.asarray(weight) + scale * noise)


@pytest.fixture(scope="session")
def exports(build_model, tmp_path_factory):
    """`exports(method)`: its model, its version folder and the loaded signatures; made once."""
    import tensorflow as tf

    @functools.cache
    def get(method):
        model = build_model(method)
        folder = tmp_path_factory.mktemp("exports") / method
        path = export.save(model, folder, class_names="01234567", metadata={"name": method})
        loaded = tf.saved_model.load(str(path))
        return types.SimpleNamespace(
            model=model, path=path, loaded=loaded, signatures=loaded.signatures
        )

    return get


@pytest.fixture(scope="session")
def images():
    """Seven random images."""
    return np.random.RandomState(3).randint(0, 256, [7, 8, 8, 1]).astype(np.uint8)
