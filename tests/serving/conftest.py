"""A tiny exported model and a server that runs in a thread."""

import contextlib
import importlib.util
import io
import json
import shutil
import socket
import urllib.error
import urllib.request

import numpy as np
import pytest

from tests import servers

SHAPE = (8, 6, 3)


def get(url):
    """Status, headers and text of an answer, whatever the status."""
    try:
        with urllib.request.urlopen(url, timeout=30) as response:
            return response.status, response.headers, response.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.headers, error.read().decode()


def get_json(url):
    return json.loads(get(url)[2])


def connect(url):
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


@pytest.fixture(scope="session")
def tiny_model():
    import keras

    from s2d_tf import models

    backbone = keras.Sequential([keras.Input(SHAPE), keras.layers.Flatten()])
    return models.S2DClassifier(backbone, 4, mean=(120.0,) * 3, stddev=(600.0,) * 3, seed=0)


@pytest.fixture
def model_folder(shared_folder, tmp_path):
    """A folder with one version, to be changed."""
    return shutil.copytree(shared_folder, tmp_path / "tiny")


@pytest.fixture(scope="session")
def shared_folder(tiny_model, tmp_path_factory):
    """A folder with one version, for tests that change nothing."""
    from s2d_tf import export

    folder = tmp_path_factory.mktemp("served") / "tiny"
    export.save(tiny_model, folder)
    return folder


@pytest.fixture(scope="session")
def pictures():
    return np.random.RandomState(5).randint(0, 256, [6, *SHAPE]).astype(np.uint8)


@pytest.fixture(scope="session")
def expected(tiny_model, pictures):
    """All outputs of a signature for `pictures`, by the Python model: dict of name to array."""
    found = tiny_model.predict_uncertainty(pictures)
    # Or a comparison would say nothing.
    assert min(found[key].min() for key in ("total", "data", "knowledge")) > 1e-3
    return {
        "probabilities": found["probs"],
        "label": found["probs"].argmax(axis=-1),
        "confidence": found["confidence"],
        "total_uncertainty": found["total"],
        "data_uncertainty": found["data"],
        "knowledge_uncertainty": found["knowledge"],
    }


@pytest.fixture(scope="session")
def compare(expected):
    """`compare(rows, first)`: answers, a dict each, are those for `pictures[first:]`."""

    def run(rows, first=0, tolerance=1e-5):
        for i, row in enumerate(rows, first):
            assert set(row) == set(expected)
            for name, values in expected.items():
                np.testing.assert_allclose(
                    row[name], values[i], rtol=0, atol=tolerance, err_msg=f"{name} of {i}"
                )

    return run


@pytest.fixture(scope="session")
def encode():
    """PNG or JPEG content of an array."""
    from PIL import Image

    def run(pixels, form="PNG"):
        buffer = io.BytesIO()
        Image.fromarray(pixels).save(buffer, form)
        return buffer.getvalue()

    return run


@pytest.fixture(scope="session")
def running():
    """`with running(servables, limits) as url`: a server of models on a free loopback port."""
    for module in ("fastapi", "uvicorn", "prometheus_client"):
        if importlib.util.find_spec(module) is None:
            pytest.skip(f"needs {module}: the extra s2d_tf[serve]")
    from s2d_tf import serving
    from s2d_tf.serving.server import listen, make_server

    @contextlib.contextmanager
    def run(servables, limits=None):
        listener = listen("127.0.0.1", 0)
        limits = limits or serving.Limits()
        server = make_server(serving.create_app("tiny", servables, limits), limits)
        with listener, servers.running(server, [listener]) as url:
            yield url

    return run


@pytest.fixture(scope="session")
def shared_servables(shared_folder):
    from s2d_tf import serving

    return serving.Servables(shared_folder)


@pytest.fixture(scope="session")
def server(running, shared_servables):
    """Address of a server with small limits."""
    from s2d_tf import serving

    limits = serving.Limits(
        request_bytes=200_000, batch_size=8, image_pixels=10_000, request_pixels=30_000
    )
    with running(shared_servables, limits) as url:
        yield url


@pytest.fixture(scope="session")
def client(load_script):
    """The module examples/serving/rest_client.py."""
    return load_script("examples/serving/rest_client.py")
