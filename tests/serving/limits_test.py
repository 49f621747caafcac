"""What a server refuses, how it says so, and that it goes on."""

import http.client
import json
import time
import zlib

import numpy as np
import pytest

from s2d_tf import cli, serving
from tests.serving.conftest import connect, get, get_json

BEGUN = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("tiny:predict", {"instances": [1]}, "400: images: expected the shape"),
        ("tiny:predict", {"instances": ["x" * 3_000_000]}, "413: request: expected at most"),
        ("tiny:classify", {}, "40[45]: "),
        ("other:predict", {}, "404: model: expected 'tiny', which is loaded, received 'other'"),
        (
            "tiny/versions/2:predict",
            {},
            "404: version: expected '1', which is loaded, received '2'",
        ),
        ("tiny/versions/x:predict", {}, "404: version: expected '1'"),
    ],
)
def test_bad_requests_get_a_clear_refusal_and_the_server_goes_on(
    server, client, path, content, message
):
    with pytest.raises(RuntimeError, match=message):
        client.post(f"{server}/v1/models/{path}", content)
    assert get_json(f"{server}/v1/models/tiny")["model_version_status"]


def test_damaged_and_oversized_files_are_refused(server, client, pictures, encode):
    good = encode(pictures[0])
    header = b"IHDR" + (50_000).to_bytes(4, "big") * 2 + good[24:29]
    bomb = good[:12] + header + zlib.crc32(header).to_bytes(4, "big") + good[33:]
    damaged = good[:60]
    photo = encode(np.random.RandomState(0).randint(0, 256, [90, 90, 3]).astype(np.uint8), "JPEG")
    for content, message in (
        (bomb, "image of 1 to 10000 pixels, received 50000 x 50000"),
        (damaged, "PNG"),
        (photo[: len(photo) // 2], "JPEG"),
    ):
        with pytest.raises(RuntimeError, match=f"400: .*{message}"):
            client.predict(server, "tiny", [good, content])
    assert len(client.predict(server, "tiny", [good, photo])) == 2
    with pytest.raises(
        RuntimeError, match=r"400: .*at most 30000 pixels in a request, received 32"
    ):
        client.predict(server, "tiny", [photo] * 4)


def test_raw_connections(server):
    """What no well-meaning client sends."""
    host, port = server.removeprefix("http://").split(":")

    def ask(method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response.status, json.loads(content)

    predict = "/v1/models/tiny:predict"
    assert ask("GET", predict)[0] == 404
    assert ask("DELETE", "/v1/models/tiny")[0] == 405
    assert ask("POST", predict, b"\xff\xfe\x00")[0] == 400
    for path in ("/", "/docs", "/openapi.json", "/v1/models/../../etc/passwd"):
        status, content = ask("GET", path)
        assert status == 404
        assert "error" in content
    with connect(server) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert b"400" in connection.recv(100)
    assert get_json(f"{server}/v1/models/tiny")["model_version_status"]


def test_a_client_that_does_not_finish_is_cut_off(running, shared_servables):
    limits = serving.Limits(request_seconds=0.3)
    with running(shared_servables, limits) as url, connect(url) as connection:
        connection.sendall(BEGUN)
        assert b"408" in connection.recv(1000)


def test_more_requests_at_once_than_the_limit_are_told_to_come_again(
    running, shared_servables, client, compare, pictures, encode
):
    with running(shared_servables, serving.Limits(concurrency=2)) as url:
        with connect(url), connect(url), connect(url):  # that ask for nothing are not counted
            compare(client.predict(url, "tiny", [encode(pictures[0])]))
        with connect(url) as first, connect(url) as second:
            first.sendall(BEGUN)
            second.sendall(BEGUN)
            status, headers, text = wait_for_refusal(url)
            assert (status, headers["Retry-After"]) == (503, "1")
            assert json.loads(text) == {
                "error": "request: expected at most 2 at once, received more. Try again later."
            }
            # Also when all of a large body is sent before the answer is read.
            with pytest.raises(RuntimeError, match="503: request: expected at most 2 at once"):
                client.post(f"{url}/v1/models/tiny:predict", {"instances": ["x" * 3_000_000]})
            first.sendall(b"}")
            assert b"HTTP/1.1 400" in first.recv(1000)
            compare(client.predict(url, "tiny", [encode(pictures[0])]))


def wait_for_refusal(url):
    """The first answer that is not a 200; what was sent on other connections may arrive late."""
    deadline = time.monotonic() + 30
    while (found := get(f"{url}/v1/models/tiny"))[0] == 200:
        assert time.monotonic() < deadline, "no request was refused"
    return found


def test_a_flag_cannot_allow_what_the_graph_refuses(tmp_path, capsys):
    pytest.importorskip("fastapi", reason="needs the extra s2d_tf[serve]")
    assert cli.main(["serve", str(tmp_path), "--max_megapixels=16.8"]) == 2
    assert "[0.001, 16.777216]" in capsys.readouterr().err
    # Its default is allowed, and the next complaint is another.
    assert cli.main(["serve", str(tmp_path), "--max_megapixels=16.777216"]) == 1
    assert "expected a folder with versions of a model" in capsys.readouterr().err
