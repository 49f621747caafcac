"""ONNX and LiteRT files give the same answers, with the standard operators only."""

import json
import sys

import numpy as np
import pytest

from s2d_tf import export
from s2d_tf.zoo import recipes
from tests.export.conftest import FORMATS, NAMES

METHODS = sorted({name.split(".")[1] for name in recipes.names()})
EVERY = ["s2d", *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS if m != "s2d")]


def compare(answers, model, images):
    expected = model.predict_uncertainty(images)
    assert set(answers) == {*NAMES, "label"}
    np.testing.assert_array_equal(answers["label"], expected["probs"].argmax(axis=-1))
    for name, key in NAMES.items():
        np.testing.assert_allclose(answers[name], expected[key], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("method", EVERY)
@pytest.mark.parametrize("form", FORMATS)
def test_a_file_gives_the_models_answers(build_model, images, tmp_path, form, method):
    save, load, name = FORMATS[form]
    if form == "onnx":
        pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    model = build_model(method)
    run = load(save(model, tmp_path / name, class_names="01234567"))
    description = json.loads((tmp_path / f"{name}.json").read_text())
    assert description["class_names"] == list("01234567")
    for size in (1, 7):
        compare(run(images=images[:size]), model, images[:size])


def test_onnx_has_standard_operators_and_a_named_batch(build_model, tmp_path):
    onnx = pytest.importorskip("onnx", reason="needs the extra s2d_tf[onnx]")
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    graph = onnx.load(str(export.save_onnx(build_model("s2d"), tmp_path / "m.onnx"))).graph
    assert {node.domain for node in graph.node} <= {"", "ai.onnx"}
    shape = graph.input[0].type.tensor_type.shape.dim
    assert [dim.dim_param or dim.dim_value for dim in shape] == ["batch", 8, 8, 1]


def test_a_missing_extra_is_named(build_model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"s2d_tf\[onnx\]"):
        export.save_onnx(build_model("individual"), tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())
