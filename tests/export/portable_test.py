"""ONNX and LiteRT files give the same answers, with the standard operators only."""

import json
import sys

import numpy as np
import pytest

from s2d_tf import export
from s2d_tf.zoo import recipes
from tests.export.conftest import NAMES, open_litert, open_onnx

METHODS = sorted({name.split(".")[1] for name in recipes.names()})
EVERY = ["s2d", *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS if m != "s2d")]


def compare(answers, model, images):
    expected = model.predict_uncertainty(images)
    assert set(answers) == {*NAMES, "label"}
    np.testing.assert_array_equal(answers["label"], expected["probs"].argmax(axis=-1))
    for name, key in NAMES.items():
        np.testing.assert_allclose(answers[name], expected[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", EVERY)
def test_onnx(build_model, images, tmp_path, method):
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra s2d_tf[onnx]")
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    import onnx

    model = build_model(method)
    path = export.save_onnx(model, tmp_path / "m.onnx", class_names="01234567")
    description = json.loads((tmp_path / "m.onnx.json").read_text())
    assert description["class_names"] == list("01234567")
    (given,) = runtime.InferenceSession(str(path)).get_inputs()
    assert (given.name, given.type, given.shape) == ("images", "tensor(uint8)", ["batch", 8, 8, 1])
    run = open_onnx(path)
    for size in (1, 7):
        compare(run(images=images[:size]), model, images[:size])
    assert {node.domain for node in onnx.load(str(path)).graph.node} <= {"", "ai.onnx"}


@pytest.mark.parametrize("method", EVERY)
def test_litert(build_model, images, tmp_path, method):
    model = build_model(method)
    run = open_litert(export.save_litert(model, tmp_path / "m.tflite"))
    for size in (1, 7):
        compare(run(images=images[:size]), model, images[:size])


def test_a_missing_extra_is_named(build_model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"s2d_tf\[onnx\]"):
        export.save_onnx(build_model("individual"), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
