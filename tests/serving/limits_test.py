"""What a server refuses, how it says so, and that it goes on; also for connections alone."""

import contextlib
import http.client
import json
import time
import zlib

import numpy as np
import pytest

from s2d_tf import cli, serving
from tests.serving.conftest import connect, get, get_json

pytest.importorskip("uvicorn", reason="needs the extra s2d_tf[serve]")

HEAD = b"GET /v1/models/tiny HTTP/1.1\r\nHost: x\r\n"
BEGUN = b"POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{"


@pytest.mark.parametrize(
    ("path", "content", "message"),
    [
        ("tiny:predict", {"instances": [1]}, "400: images: expected the shape"),
        ("tiny:predict", {"instances": ["x" * 3_000_000]}, "413: request: expected at most"),
        ("tiny:classify", {}, "40[45]: "),
        ("other:predict", {}, "404: model: expected 'tiny', which is loaded, received 'other'"),
        ("tiny/versions/2:predict", {}, "404: version: expected '1', which is loaded, received"),
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

    def ask(method, path, body=None, headers=None):
        connection = http.client.HTTPConnection(server.removeprefix("http://"), timeout=30)
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


def test_a_client_that_does_not_finish_is_cut_off(connected):
    with connected(request_seconds=0.3) as connection:
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
    assert cli.main(["serve", str(tmp_path), "--max_megapixels=16.8"]) == 2
    assert "[0.001, 16.777216]" in capsys.readouterr().err
    # Its default is allowed, and the next complaint is another.
    assert cli.main(["serve", str(tmp_path), "--max_megapixels=16.777216"]) == 1
    assert "expected a folder with versions of a model" in capsys.readouterr().err


@pytest.fixture
def connected(running, shared_servables):
    """`with connected(**limits) as connection`: to a server with these limits."""

    @contextlib.contextmanager
    def run(**limits):
        with running(shared_servables, serving.Limits(**limits)) as url, connect(url) as connection:
            yield connection

    return run


def read_all(connection):
    parts = []
    while part := connection.recv(1000):
        parts.append(part)
    return b"".join(parts)


@pytest.mark.parametrize("sent", [b"", b"GET /v1", HEAD])
def test_an_unfinished_head_times_out(connected, sent):
    with connected(header_seconds=0.3) as connection:
        connection.sendall(sent)
        assert read_all(connection).startswith(b"HTTP/1.1 408")


def test_so_does_the_head_of_a_second_request(connected):
    with connected(header_seconds=0.3) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET")
        assert read_all(connection).endswith(b"408 Request Timeout\r\nConnection: close\r\n"
                                             b"Content-Length: 0\r\n\r\n")  # fmt: skip


def drip(connection):
    for _ in range(100):
        connection.sendall(b"G")
        time.sleep(0.05)


@pytest.mark.parametrize("answered", [False, True])
def test_a_head_or_a_body_after_its_answer_that_drips_times_out(connected, answered):
    with connected(header_seconds=0.5) as connection:
        if answered:
            connection.sendall(b"POST /no HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 404")
        began = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(connection)
        assert time.monotonic() - began < 4


def test_an_idle_connection_is_not_a_slow_one(running, shared_servables):
    with running(shared_servables, serving.Limits(header_seconds=0.2)) as url:
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=30)
        for _ in range(2):
            connection.request("GET", "/v1/models/tiny")
            assert json.load(connection.getresponse())["model_version_status"]
            time.sleep(0.5)
        connection.close()


def test_connections_are_counted(running, shared_servables):
    with running(shared_servables, serving.Limits(connections=3)) as url:
        held = [connect(url) for _ in range(3)]
        for connection in held:  # All three are known to the server.
            connection.sendall(HEAD + b"\r\n")
            assert connection.recv(1000).startswith(b"HTTP/1.1 200")
        with connect(url) as one_more:
            assert read_all(one_more).startswith(b"HTTP/1.1 503")
        for connection in held:
            connection.close()
        time.sleep(0.2)
        assert get(f"{url}/healthz")[0] == 200


def test_an_answer_that_is_not_taken_is_given_up(connected, pictures):
    body = json.dumps({"instances": [pictures[0].tolist()] * 256}).encode()
    head = "POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n"
    request = head.format(len(body)).encode() + body
    with (
        connected(request_seconds=0.5) as connection,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        connection.sendall(request * 300)  # Nobody reads the answers.
