"""A server that drips holds nobody up for longer than the deadline."""

import socket
import threading
import time

import pytest

from s2d_tf.zoo import sources
from s2d_tf.zoo.entries import ZooError


@pytest.fixture
def dripping():
    """`dripping(start)`: address of a server that sends `start`, then a byte now and then."""
    stopped, threads = threading.Event(), []

    def run(start):
        listener = socket.create_server(("127.0.0.1", 0))

        def answer():
            with listener, listener.accept()[0] as connection:
                connection.recv(1000)
                connection.sendall(start)
                while not stopped.wait(0.05):
                    try:
                        connection.sendall(b"x")
                    except OSError:
                        return

        threads.append(threading.Thread(target=answer))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/entry"

    yield run
    stopped.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize(
    "start",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nA: ",
        b"H",
    ],
)
def test_a_download_has_a_total_deadline(dripping, monkeypatch, start):
    monkeypatch.setattr(sources, "TOTAL_SECONDS", 0.5)
    address, began = sources.WebFolder(dripping(start)), time.monotonic()
    with pytest.raises(ZooError, match=r"within 0\.5 seconds\. .* download the folder"):
        address.read("entry.json", 10_000_000)
    assert time.monotonic() - began < 10
    # It is over for the next file, too, and for an entry that this one refers to.
    began = time.monotonic()
    with pytest.raises(ZooError, match=r"within 0\.5 seconds"):
        address.read("model.safetensors", 100, entry="wrn_10_2_s2.s2d.digits")
    assert time.monotonic() - began < 0.4
