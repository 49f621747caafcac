"""Files in int8: convolutions are quantized, the head and the uncertainties are not."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from scipy import special

from s2d_tf import cli, export


@pytest.fixture(scope="module")
def model(build_model):
    return build_model("s2d")


@pytest.fixture(scope="module")
def pictures():
    return np.random.RandomState(7).randint(0, 256, [64, 8, 8, 1]).astype(np.uint8)


def compare(answers, model, images):
    """Near the float32 answers, and not equal to them: something was rounded."""
    expected = model.predict_uncertainty(images, engine="tensorflow")
    assert 1e-6 < np.abs(answers["probabilities"] - expected["probs"]).mean() < 0.02
    assert (answers["label"] == expected["probs"].argmax(axis=-1)).mean() > 0.85
    np.testing.assert_allclose(
        answers["total_uncertainty"],
        answers["data_uncertainty"] + answers["knowledge_uncertainty"],
        rtol=1e-5,
        atol=1e-6,
    )
    # Of the quantized network's logits, computed without further rounding.
    entropy = special.entr(answers["probabilities"].astype(np.float64)).sum(axis=-1)
    np.testing.assert_allclose(answers["total_uncertainty"], entropy, rtol=1e-4, atol=1e-6)


def test_onnx(model, pictures, tmp_path):
    runtime = pytest.importorskip("onnxruntime", reason="needs the extra s2d_tf[onnx]")
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    import onnx

    path = export.save_onnx(model, tmp_path / "int8", precision="int8", calibration=pictures)
    assert json.loads((path / "assets" / "model.json").read_text())["precision"] == "int8"
    session = runtime.InferenceSession(str(path / "model.onnx"))
    names = [output.name for output in session.get_outputs()]
    answers = dict(zip(names, session.run(None, {"images": pictures}), strict=True))
    compare(answers, model, pictures)
    graph = onnx.load(str(path / "model.onnx")).graph
    by_output = {name: node for node in graph.node for name in node.output}
    convolutions = [node for node in graph.node if node.op_type == "Conv"]
    assert convolutions
    for node in convolutions:
        assert [by_output[name].op_type for name in node.input[:2]] == ["DequantizeLinear"] * 2
    products = [node for node in graph.node if node.op_type in ("MatMul", "Gemm")]
    assert products
    for node in products:
        assert not [n for n in node.input if n in by_output and "Linear" in by_output[n].op_type]


def test_litert(model, pictures, tmp_path):
    litert = pytest.importorskip(
        "ai_edge_litert.interpreter", reason="needs the extra s2d_tf[litert]"
    )
    sizes = {}
    for precision in ("float32", "int8"):
        path = export.save_litert(model, tmp_path / precision, precision=precision)
        sizes[precision] = (path / "model.tflite").stat().st_size
    runner = litert.Interpreter(str(path / "model.tflite")).get_signature_runner("serving_default")
    compare(runner(images=pictures), model, pictures)
    assert sizes["int8"] < 0.6 * sizes["float32"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"precision": "float8"}, r"precision: expected one of .*'int8'\), received 'float8'"),
        ({"precision": "int8"}, "calibration: expected images as the model takes them"),
        (
            {"precision": "int8", "calibration": np.zeros([3, 8, 8, 1], np.uint8)},
            r"at least 16 images of shape \(8, 8, 1\), received \(3, 8, 8, 1\)",
        ),
        (
            {"precision": "int8", "calibration": np.zeros([20, 9, 8, 1], np.uint8)},
            r"received \(20, 9, 8, 1\)",
        ),
    ],
)
def test_what_cannot_be_quantized(model, tmp_path, arguments, message):
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    with pytest.raises(ValueError, match=message):
        export.save_onnx(model, tmp_path / "model", **arguments)
    assert not list(tmp_path.glob("model/*"))


@pytest.mark.usefixtures("leave_no_flags")
@pytest.mark.parametrize("calibration", ["dataset", pytest.param("folder", marks=pytest.mark.slow)])
def test_the_command(capsys, pictures, tmp_path, calibration):
    pytest.importorskip("tf2onnx", reason="needs the extra s2d_tf[onnx]")
    arguments = ["wrn_10_2_s2.s2d.digits", str(tmp_path / "digits")]
    arguments += ["--format=onnx", "--precision=int8"]
    if calibration == "folder":
        folder = tmp_path / "pictures"
        folder.mkdir()
        for i, picture in enumerate(pictures):
            (folder / f"{i}.png").write_bytes(tf.io.encode_png(picture).numpy())
        arguments += [f"--calibration={folder}"]
    assert cli.main(["export", *arguments]) == 0
    path = pathlib.Path(capsys.readouterr().out.strip())
    assert json.loads((path / "assets" / "model.json").read_text())["precision"] == "int8"
    assert b"QuantizeLinear" in (path / "model.onnx").read_bytes()
