"""ONNX and LiteRT files give the same answers, with the standard operators only."""

import sys

import numpy as np
import pytest

from s2d_tf import export
from tests.export.conftest import NAMES

SINGLE_PASS = (
    *("s2d", "individual", "mimo", "end", "en2d", "h2d_dir", "h2d_gauss"),
    *("h2d", "h2d_spread", "plain_gauss"),
)
OTHERS = ("s2d_mimo", "mc", "s2d_mc", "swag", "s2d_swag", "ensemble", "s2d_ensemble")
EVERY = ["s2d", *(pytest.param(m, marks=pytest.mark.slow) for m in (*SINGLE_PASS[1:], *OTHERS))]


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
    model = build_model(method)
    path = export.save_onnx(model, tmp_path / "model", class_names="01234567")
    assert (path / "assets" / "classes.txt").is_file()
    session = runtime.InferenceSession(str(path / "model.onnx"))
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape) == ("images", "tensor(uint8)", ["batch", 8, 8, 1])
    names = [output.name for output in session.get_outputs()]
    for size in (1, 7):
        answers = dict(zip(names, session.run(None, {"images": images[:size]}), strict=True))
        compare(answers, model, images[:size])
    domains = {node.domain for node in _onnx_nodes(path / "model.onnx")}
    assert domains <= {"", "ai.onnx"}


def _onnx_nodes(path):
    import onnx

    return onnx.load(str(path)).graph.node


@pytest.mark.parametrize("method", EVERY)
def test_litert(build_model, images, tmp_path, method):
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="needs the extra s2d_tf[litert]"
    )
    model = build_model(method)
    path = export.save_litert(model, tmp_path / "model")
    # An interpreter that knows built-in operations only.
    interpreter = litert.Interpreter(
        str(path / "model.tflite"),
        experimental_op_resolver_type=litert.OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    used = {details["op_name"] for details in interpreter._get_ops_details()}
    assert not [name for name in used if name.startswith("Flex") or name == "CUSTOM"]
    runner = interpreter.get_signature_runner("serving_default")
    for size in (1, 7):
        compare(runner(images=images[:size]), model, images[:size])


def test_a_missing_extra_is_named(build_model, monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "tf2onnx", None)  # as if it were not installed
    with pytest.raises(ImportError, match=r"pip install 's2d_tf\[onnx\]'"):
        export.save_onnx(build_model("s2d"), tmp_path / "model")
    assert not (tmp_path / "model").exists()
