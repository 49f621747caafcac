"""Connections that ask for nothing, slowly, or all at once."""

import contextlib
import http.client
import json
import time

import pytest

from s2d_tf import serving
from tests.serving.conftest import connect, get

pytest.importorskip("uvicorn", reason="needs the extra s2d_tf[serve]")
from s2d_tf.serving import server as connections

HEAD = b"GET /v1/models/tiny HTTP/1.1\r\nHost: x\r\n"


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


def drip(connection):
    """Sends a head that never ends, until the server has had enough."""
    for _ in range(100):
        connection.sendall(b"G")
        time.sleep(0.05)


def test_a_head_that_drips_times_out(connected):
    with connected(header_seconds=0.5) as connection:
        began = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(connection)
        assert time.monotonic() - began < 4


def test_so_does_the_head_of_a_second_request(connected):
    with connected(header_seconds=0.3) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET")
        assert read_all(connection).endswith(b"408 Request Timeout\r\nConnection: close\r\n"
                                             b"Content-Length: 0\r\n\r\n")  # fmt: skip


def test_a_body_that_drips_after_its_answer_times_out(connected):
    with connected(header_seconds=0.5) as connection:
        connection.sendall(b"POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n")
        assert connection.recv(1000).startswith(b"HTTP/1.1 404")
        began = time.monotonic()
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            drip(connection)
        assert time.monotonic() - began < 4


def test_an_idle_connection_is_not_a_slow_one(running, shared_servables):
    with running(shared_servables, serving.Limits(header_seconds=0.2)) as url:
        host, port = url.removeprefix("http://").split(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
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


def test_the_systems_limit_of_files_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (400, 4000))
    most = connections.most_connections(serving.Limits(connections=10_000))
    assert most == 400 - connections.BACKLOG - connections.RESERVED_FILES
    assert connections.most_connections(serving.Limits(connections=5)) == 5


def test_an_answer_that_is_not_taken_is_given_up(connected, pictures):
    body = json.dumps({"instances": [pictures[0].tolist()] * 256}).encode()
    head = "POST /v1/models/tiny:predict HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n"
    request = head.format(len(body)).encode() + body
    with (
        connected(request_seconds=0.5) as connection,
        pytest.raises((BrokenPipeError, ConnectionResetError)),
    ):
        connection.sendall(request * 300)  # Nobody reads the answers.
