"""The server over loopback, queried by the example's client."""

import subprocess
import sys
import time

import pytest

from s2d_tf import export, serving
from tests.serving.conftest import get_json


def test_the_client_gets_the_models_answers(server, client, compare, pictures, encode):
    answers = client.predict(server, "tiny", [encode(picture) for picture in pictures])
    assert len(answers) == len(pictures)
    compare(answers)


@pytest.mark.parametrize("signature", ["serving_default", "serve_float"])
def test_pixels_in_rows_and_columns(server, client, compare, pictures, signature):
    for path in ("", "/versions/1"):
        address = f"{server}/v1/models/tiny{path}:predict"
        content = {"signature_name": signature, "instances": pictures.tolist()}
        rows = client.post(address, content)["predictions"]
        assert len(rows) == len(pictures)
        compare(rows)
        content = {"signature_name": signature, "inputs": {"images": pictures.tolist()}}
        columns = client.post(address, content)["outputs"]
        compare(
            [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        )


def test_the_client_as_a_program(server, project_root, pictures, encode, tmp_path):
    good, bad = tmp_path / "good.png", tmp_path / "bad.png"
    good.write_bytes(encode(pictures[0]))
    bad.write_bytes(b"no picture")
    classes = tmp_path / "classes.txt"
    classes.write_text("ant\nbee\ncat\ndog\n")

    def run(*arguments):
        program = project_root / "examples" / "serving" / "rest_client.py"
        return subprocess.run(
            [sys.executable, program, *arguments, "--url", server, "--model", "tiny"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    result = run(good, "--classes", classes)
    assert result.returncode == 0, result.stderr
    assert any(name in result.stdout for name in ("ant", "bee", "cat", "dog"))
    assert "in the data" in result.stdout
    result = run(good, bad)
    assert result.returncode == 1
    assert "400: image_bytes[1]: expected a JPEG or PNG file" in result.stderr


def test_status_and_metadata(server):
    status = get_json(f"{server}/v1/models/tiny")
    assert status == get_json(f"{server}/v1/models/tiny/versions/1")
    (version,) = status["model_version_status"]
    assert version["version"] == "1"
    assert version["state"] == "AVAILABLE"
    assert version["status"] == {"error_code": "OK", "error_message": ""}
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


def wait_for_version(url, version):
    deadline = time.monotonic() + 60
    while get_json(f"{url}/v1/models/tiny")["model_version_status"][0]["version"] != version:
        assert time.monotonic() < deadline, f"version {version} was not taken up"
        time.sleep(0.05)


def test_newer_versions_are_taken_up(running, client, tiny_model, model_folder, pictures, encode):
    servables = serving.Servables(model_folder, poll_seconds=0.1)
    with running(servables) as url, servables.watching():
        old = client.predict(url, "tiny", [encode(pictures[0])])
        weights = tiny_model.head.get_weights()
        try:
            tiny_model.head.set_weights([-each for each in weights])
            export.save(tiny_model, model_folder)
        finally:
            tiny_model.head.set_weights(weights)
        wait_for_version(url, "2")
        new = client.predict(url, "tiny", [encode(pictures[0])])
        assert new[0]["probabilities"] != old[0]["probabilities"]
