"""Every method and entry, exported, answers as its model does, and as a float64 reference says."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf
from scipy import special
from tensorflow.core.protobuf import saved_model_pb2

from s2d_tf import export, uncertainty, zoo
from s2d_tf.export import operations
from s2d_tf.zoo import recipes
from tests.export.conftest import FORMATS, NAMES

# Each way to draw members, each kind of prediction; the other products are in the slow tier.
DEFAULT = ["individual", "s2d", "s2d_mimo", "swag", "s2d_mc", "s2d_ensemble", "h2d_gauss"]
SLOW = ["mimo", "s2d_swag", "mc", "ensemble", "end", "en2d", "h2d_dir", "h2d", "plain_dir"]
METHODS = (*DEFAULT, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW))
OTHERS = [pytest.param(m, marks=pytest.mark.slow) for m in (*DEFAULT, *SLOW) if m != "s2d"]


def reference(kind, logits):
    """Uncertainties by their definitions, in float64."""
    logits = logits.astype(np.float64)
    probs = special.softmax(logits, axis=-1)
    mean = probs.mean(axis=0)
    total = special.entr(mean).sum(axis=-1)
    if kind == "categorical":
        data = special.entr(probs).sum(axis=-1).mean(axis=0)
    else:
        concentrations = np.exp(logits)
        sums = concentrations.sum(axis=-1, keepdims=True)
        digammas = special.digamma(sums + 1) - special.digamma(concentrations + 1)
        data = (probs * digammas).sum(axis=-1).mean(axis=0)
    return {
        "probabilities": mean,
        "label": mean.argmax(axis=-1),
        "confidence": mean.max(axis=-1),
        "total_uncertainty": total,
        "data_uncertainty": data,
        "knowledge_uncertainty": total - data,
    }


def run(signature, **inputs):
    tensors = {name: tf.constant(value) for name, value in inputs.items()}
    return {name: value.numpy() for name, value in signature(**tensors).items()}


def test_all_methods_of_the_zoo_are_here():
    found = {name.split(".")[1] for name in recipes.names()}
    assert found == {*DEFAULT, *SLOW}


@pytest.mark.parametrize("method", METHODS)
def test_answers_are_those_of_the_model(exports, images, method):
    held = exports(method)
    answers = run(held.signatures["serving_default"], images=images)
    assert {name: value.dtype.name for name, value in answers.items()} == {
        "label": "int64",
        **dict.fromkeys(NAMES, "float32"),
    }
    kind, logits = held.model.predict_members(images)
    expected = uncertainty.from_members(kind, logits)
    for name, key in NAMES.items():
        np.testing.assert_allclose(answers[name], expected[key], rtol=1e-5, atol=2e-6)
    assert held.model.num_members == len(logits)
    if held.model.num_members > 1:
        assert np.abs(logits[0] - logits[1]).max() > 1e-3
    by_definition = reference(kind, logits)
    for name, value in by_definition.items():
        np.testing.assert_allclose(answers[name], value, rtol=1e-4, atol=2e-6, err_msg=name)
    # The images differ, and so do the answers.
    assert np.ptp(answers["total_uncertainty"]) > 1e-4


@pytest.mark.parametrize("method", METHODS)
def test_signatures_agree_and_batches_have_no_influence(exports, images, method):
    signatures = exports(method).signatures
    whole = run(signatures["serving_default"], images=images)
    files = [tf.io.encode_png(image).numpy() for image in images]
    for size in (1, 3, 7):
        parts = [
            run(signatures["serving_default"], images=images[:size]),
            run(signatures["serve_float"], images=images[:size].astype(np.float32)),
            run(signatures["serve_encoded"], image_bytes=files[:size]),
        ]
        for part in parts:
            for name, value in whole.items():
                np.testing.assert_allclose(part[name], value[:size], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_session_gives_the_same_answers(exports, images, method):
    """TF Serving loads into a session, from the signatures alone, without Python's objects; all
    operations are on the closed list."""
    path = exports(method).path
    signature = operations.check(path).meta_graphs[0].signature_def["serving_default"]
    outputs = {name: info.name for name, info in signature.outputs.items()}
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        tf.compat.v1.saved_model.load(session, ["serve"], str(path))
        found = session.run(outputs, {signature.inputs["images"].name: images})
    expected = run(exports(method).signatures["serving_default"], images=images)
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, atol=2e-6, err_msg=name)


def test_shared_weights_are_kept_once_and_draws_are_not_repeated(exports):
    def numbers(method):
        content = (exports(method).path / "saved_model.pb").read_bytes()
        library = saved_model_pb2.SavedModel.FromString(content).meta_graphs[0].graph_def.library
        nodes = [node for function in library.function for node in function.node_def]
        arrays = [node.attr["value"].tensor for node in nodes if node.op == "Const"]
        return sum(tf.make_ndarray(each).size for each in arrays if each.dtype == tf.float32)

    # Two masks add little; an ensemble of two or two draws of SWAG have twice the weights.
    single = numbers("individual")
    assert single < numbers("s2d_mc") < 1.6 * single
    assert numbers("swag") > 1.9 * single
    assert numbers("s2d_ensemble") > 1.9 * single


@pytest.mark.parametrize("method", ["s2d", *OTHERS])
@pytest.mark.parametrize("form", FORMATS)
def test_a_file_gives_the_models_answers(build_model, images, tmp_path, form, method):
    save, load, name = FORMATS[form]
    model = build_model(method)
    run = load(save(model, tmp_path / name, class_names="01234567"))
    description = json.loads((tmp_path / f"{name}.json").read_text())
    assert description["class_names"] == list("01234567")
    for size in (1, 7):
        answers, expected = run(images=images[:size]), model.predict_uncertainty(images[:size])
        np.testing.assert_array_equal(answers["label"], expected["label"])
        for output, key in NAMES.items():
            np.testing.assert_allclose(answers[output], expected[key], rtol=1e-5, atol=1e-5)


def test_onnx_has_standard_operators_and_a_named_batch(build_model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the extra s2d_tf[onnx]")
    graph = onnx.load(str(FORMATS["onnx"][0](build_model("s2d"), tmp_path / "m.onnx"))).graph
    assert {node.domain for node in graph.node} <= {"", "ai.onnx"}
    shape = graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in shape] == ["batch", 8, 8, 1]


def test_a_missing_extra_is_named(build_model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"s2d_tf\[onnx\]"):
        export.save_onnx(build_model("individual"), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


PRETRAINED = [
    pytest.param(name, marks=() if name == "wrn_10_2_s2.s2d.digits" else pytest.mark.slow)
    for name in zoo.names(pretrained=True)
]


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_pretrained_entry_exports(name, tmp_path):
    model = zoo.load(name)
    examples = model.contract.sample(5)
    examples = examples.astype(np.uint8) if model.image_shape else examples
    version = export.load(export.save(model, tmp_path))
    assert version.class_names == tuple(zoo.entry(name).record.class_names)
    answers = version.signatures["serving_default"](tf.constant(examples))
    expected = model.predict_uncertainty(examples)
    np.testing.assert_array_equal(answers["label"], expected["label"])
    for output, key in NAMES.items():
        np.testing.assert_allclose(answers[output], expected[key], rtol=1e-4, atol=2e-6)
