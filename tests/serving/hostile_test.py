"""A server under attack and under load, as a process of its own with few files: it goes on.

Each attack is bounded in time and stays on the loopback interface.
"""

import base64
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from tests.data.image_files_test import chunk, inflating, png
from tests.serving.conftest import connect, get, get_json

FILES = 512
HALF_OPEN = 700


@pytest.fixture
def attacked(model_folder, project_root, tmp_path):
    """Address and process of a server that may have `FILES` files open."""
    resource = pytest.importorskip("resource")
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        pytest.importorskip(module, reason="needs the extra s2d_tf[serve]")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < HALF_OPEN + 200:
        pytest.skip(f"needs more open files than {soft} for the attacker")
    log = tmp_path / "log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", "s2d_tf", "serve", str(model_folder), "--port=0"],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            cwd=project_root,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )
    try:
        line = process.stdout.readline()
        assert line.startswith("Serving tiny"), log.read_text()
        yield line.split(" at ")[1].split("/v1")[0], process
        assert process.poll() is None, log.read_text()
        assert log.stat().st_size < 100_000
        for text in log.read_text().splitlines():
            assert json.loads(text)["message"]
    finally:
        process.terminate()
        process.communicate(timeout=60)


def wait(condition, seconds=60):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def version(url):
    """The loaded version, or None where the server does not answer."""
    with contextlib.suppress(OSError, ValueError):
        status = get_json(f"{url}/v1/models/tiny")
        return status["model_version_status"][0]["version"]


@pytest.mark.slow
def test_half_open_connections_to_the_limit_of_files(attacked, model_folder):
    url, process = attacked
    held = []
    try:
        for _ in range(HALF_OPEN):
            held.append(connect(url))
            with contextlib.suppress(OSError):
                held[-1].sendall(b"POST /v1")
        opened = len(list(pathlib.Path(f"/proc/{process.pid}/fd").glob("*")))
        assert opened < FILES
        # Meanwhile a version appears.
        shutil.copytree(model_folder / "1", model_folder / "2")
        # The heads are late after ten seconds, while the attacker still holds its ends.
        wait(lambda: version(url) == "2")
    finally:
        for connection in held:
            connection.close()
    assert get(f"{url}/healthz")[0] == 200


@pytest.mark.slow
def test_bombs_take_no_time(attacked, client):
    url, process = attacked
    bomb = png([chunk(b"IDAT", inflating(2600))])
    assert len(bomb) > 2_000_000
    content = {"b64": base64.b64encode(bomb).decode()}
    began, used = time.monotonic(), cpu_seconds(process.pid)
    for _ in range(5):
        with pytest.raises(RuntimeError, match=r"400: .* bytes for 32 x 32 pixels"):
            client.post(
                f"{url}/v1/models/tiny:predict",
                {"signature_name": "serve_encoded", "instances": [content]},
            )
    assert cpu_seconds(process.pid) - used < 2.0, time.monotonic() - began


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


@pytest.mark.slow
def test_ten_thousand_requests_are_answered_and_memory_stays_flat(attacked, pictures, compare):
    url, process = attacked
    body = json.dumps({"instances": pictures.tolist()})

    def ask(count):
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=120)
        for number in range(count):
            wrong = number % 50 == 0
            text = '{"instances": [NaN]}' if wrong else body
            connection.request("POST", "/v1/models/tiny:predict", text)
            response = connection.getresponse()
            content = json.loads(response.read())
            assert response.status == (400 if wrong else 200), content
            if not wrong:
                compare(content["predictions"])
        connection.close()

    def run(requests):
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(ask, [requests // 16] * 16))
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    before = run(1_000)  # Buffers and caches have reached their size.
    after = run(9_000)
    assert after - before < 24, f"memory grew from {before:.0f} to {after:.0f} MB"
