"""Ten thousand requests from sixteen clients: all answered, all right, and memory stays flat."""

import base64
import collections
import concurrent.futures
import http.client
import json
import pathlib
import subprocess
import sys

import pytest

CLIENTS = 16
REQUESTS = 10_000
BAD_EVERY = 100


@pytest.fixture
def process(shared_folder, project_root):
    """The server as a process of its own, whose memory is its own."""
    pytest.importorskip("fastapi", reason="needs the extra s2d_tf[serve]")
    pytest.importorskip("uvicorn", reason="needs the extra s2d_tf[serve]")
    command = ["serve", str(shared_folder), "--port=0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "s2d_tf", *command],
        stdout=subprocess.PIPE,
        text=True,
        cwd=project_root,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("Serving tiny"), line
        yield process, int(line.split("127.0.0.1:")[1].split("/")[0])
    finally:
        process.terminate()
        process.communicate(timeout=60)


def memory_megabytes(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def good_requests(pictures, encode):
    """Bodies of all signatures, each with the number of its first picture and how many it has."""
    made = []
    for i, picture in enumerate(pictures):
        encoded = {"b64": base64.b64encode(encode(picture)).decode()}
        made += [
            ({"signature_name": "serve_encoded", "instances": [encoded]}, i, 1),
            ({"instances": [picture.tolist()]}, i, 1),
        ]
    floats = {"signature_name": "serve_float", "instances": pictures[:3].tolist()}
    made.append((floats, 0, 3))
    return [(json.dumps(body), first, count) for body, first, count in made]


def bad_requests(pictures, encode):
    good = encode(pictures[0])
    bomb = good[:16] + (40_000).to_bytes(4, "big") * 2 + good[24:]
    files = [bomb, good[:50], b"no picture"]
    bodies = [{"instances": [1]}, {"instances": []}, {"nothing": 1}, {"instances": [1] * 1_000}]
    bodies += [
        {
            "signature_name": "serve_encoded",
            "instances": [{"b64": base64.b64encode(content).decode()}],
        }
        for content in files
    ]
    return [*(json.dumps(body) for body in bodies), '{"instances": [NaN]}', "{"]


@pytest.mark.slow
def test_under_load(process, pictures, encode, compare):
    server, port = process
    if not pathlib.Path(f"/proc/{server.pid}/status").is_file():
        pytest.skip("needs /proc to read the server's memory")
    good = good_requests(pictures, encode)
    bad = bad_requests(pictures, encode)

    def client(numbers):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        seen = collections.Counter()
        for number in numbers:
            refused = number % BAD_EVERY == 0
            body, first, count = good[number % len(good)]
            if refused:
                body = bad[number // BAD_EVERY % len(bad)]
            connection.request("POST", "/v1/models/tiny:predict", body)
            response = connection.getresponse()
            content = json.loads(response.read())
            if refused:
                assert response.status == 400, content
                assert content["error"]
            else:
                assert response.status == 200, content
                assert len(content["predictions"]) == count
                compare(content["predictions"], first)
            seen[response.status] += 1
        connection.close()
        return seen

    def run(first, last):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
            shares = [range(first + i, last, CLIENTS) for i in range(CLIENTS)]
            return sum(pool.map(client, shares), collections.Counter())

    # Buffers and caches have reached their size after a tenth.
    seen = run(0, REQUESTS // 10)
    before = memory_megabytes(server.pid)
    seen += run(REQUESTS // 10, REQUESTS)
    after = memory_megabytes(server.pid)
    assert seen == {400: REQUESTS // BAD_EVERY, 200: REQUESTS - REQUESTS // BAD_EVERY}
    assert after - before < 24, f"memory grew from {before:.0f} to {after:.0f} MB"
    print(f"{REQUESTS} requests; memory {before:.1f} -> {after:.1f} MB")
