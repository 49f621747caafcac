"""The server over loopback, queried by the example's client."""

import pytest

from tests.serving.conftest import get_json


def test_the_client_gets_the_models_answers(server, client, compare, pictures, encode):
    answers = client.predict(server, "tiny", [encode(picture) for picture in pictures])
    assert len(answers) == len(pictures)
    compare(answers)


@pytest.mark.parametrize("signature", ["serving_default", "serve_float"])
@pytest.mark.parametrize("path", ["tiny", "tiny/versions/1"])
def test_pixels(server, client, compare, pictures, signature, path):
    content = {"signature_name": signature, "instances": pictures.tolist()}
    rows = client.post(f"{server}/v1/models/{path}:predict", content)["predictions"]
    assert len(rows) == len(pictures)
    compare(rows)


def test_the_client_as_a_program(server, run_python, pictures, encode, tmp_path):
    for name, content in (("good", encode(pictures[0])), ("bad", b"no"), ("classes", b"a\n" * 4)):
        (tmp_path / name).write_bytes(content)
    program = "examples/serving/rest_client.py"
    options = ["--url", server, "--model", "tiny", "--classes", tmp_path / "classes"]
    result = run_python(program, tmp_path / "good", *options)
    assert result.returncode == 0, result.stderr
    assert "in the data" in result.stdout
    result = run_python(program, tmp_path / "good", tmp_path / "bad", *options)
    assert result.returncode == 1
    assert "400: image_bytes[1]: expected a JPEG or PNG file" in result.stderr


def test_status_and_metadata(server):
    status = get_json(f"{server}/v1/models/tiny")
    assert status == get_json(f"{server}/v1/models/tiny/versions/1")
    (version,) = status["model_version_status"]
    error = {"error_code": "OK", "error_message": ""}
    assert version == {"version": "1", "state": "AVAILABLE", "status": error}
    metadata = get_json(f"{server}/v1/models/tiny/metadata")
    assert metadata["model_spec"] == {"name": "tiny", "signature_name": "", "version": "1"}
    signatures = metadata["metadata"]["signature_def"]["signature_def"]
    assert set(signatures) == {"serving_default", "serve_float", "serve_encoded"}
    images = signatures["serving_default"]["inputs"]["images"]
    assert set(images) == {"dtype", "tensor_shape", "name"}
    assert images["dtype"] == "DT_UINT8"
    # 64-bit numbers are text in protocol buffers' JSON.
    sizes = [{"size": size, "name": ""} for size in ("-1", "8", "6", "3")]
    assert images["tensor_shape"] == {"dim": sizes, "unknown_rank": False}
    assert set(signatures["serving_default"]) == {"inputs", "outputs", "method_name", "defaults"}
