"""What a server refuses, how it says so, and that it goes on."""

import http.client
import json
import socket
import time
import urllib.request
import zlib

import numpy as np
import pytest

from s2d_tf import cli, serving


def get(url):
    with urllib.request.urlopen(url, timeout=30) as response:
        return json.load(response)


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
    assert get(f"{server}/v1/models/tiny")["model_version_status"]


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
    with socket.create_connection((host, int(port)), timeout=30) as connection:
        connection.sendall(b"nonsense\r\n\r\n")
        assert b"400" in connection.recv(100)
    assert get(f"{server}/v1/models/tiny")["model_version_status"]


def test_a_client_that_does_not_finish_is_cut_off(running, shared_servables):
    with running(shared_servables, serving.Limits(request_seconds=0.3)) as url:
        host, port = url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=30) as connection:
            head = (
                "POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
            )
            connection.sendall(head.encode())
            assert b"408" in connection.recv(1000)


def test_more_requests_at_once_than_the_limit_are_told_to_come_again(
    running, shared_servables, client, compare, pictures, encode
):
    begun = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"
    with running(shared_servables, serving.Limits(concurrency=2)) as url:
        host, port = url.removeprefix("http://").split(":")

        def connect():
            return socket.create_connection((host, int(port)), timeout=30)

        with connect(), connect(), connect():  # that ask for nothing are not counted
            compare(client.predict(url, "tiny", [encode(pictures[0])]))
        with connect() as first, connect() as second:
            first.sendall(begun)
            second.sendall(begun)
            refused = wait_for_refusal(host, int(port))
            assert refused.status == 503
            assert refused.headers["Retry-After"] == "1"
            assert json.loads(refused.content) == {
                "error": "request: expected at most 2 at once, received more. Try again later."
            }
            # Also when all of a large body is sent before the answer is read.
            with pytest.raises(RuntimeError, match="503: request: expected at most 2 at once"):
                client.post(f"{url}/v1/models/tiny:predict", {"instances": ["x" * 3_000_000]})
            first.sendall(b"}")
            assert b"HTTP/1.1 400" in first.recv(1000)
            compare(client.predict(url, "tiny", [encode(pictures[0])]))


def wait_for_refusal(host, port):
    """The first answer that is not a 200; what was sent on other connections may arrive late."""
    deadline = time.monotonic() + 30
    while True:
        connection = http.client.HTTPConnection(host, port, timeout=30)
        connection.request("GET", "/v1/models/tiny")
        response = connection.getresponse()
        response.content = response.read()
        connection.close()
        if response.status != 200:
            return response
        assert time.monotonic() < deadline, "no request was refused"


def test_a_flag_cannot_allow_what_the_graph_refuses(tmp_path, capsys):
    pytest.importorskip("fastapi", reason="needs the extra s2d_tf[serve]")
    assert cli.main(["serve", str(tmp_path), "--max_megapixels=16.8"]) == 2
    assert "[0.001, 16.777216]" in capsys.readouterr().err
    # Its default is allowed, and the next complaint is another.
    assert cli.main(["serve", str(tmp_path), "--max_megapixels=16.777216"]) == 1
    assert "expected a folder with versions of a model" in capsys.readouterr().err
