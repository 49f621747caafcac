"""Which Keras backend the package believes to be in use, and what it does about it."""

import json
import sys
import types

import pytest

from s2d_tf import _backend


@pytest.fixture
def fresh(monkeypatch, tmp_path):
    """No Keras imported, nothing set, an empty home."""
    monkeypatch.delitem(sys.modules, "keras", raising=False)
    for name in ("KERAS_BACKEND", "KERAS_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def write_settings(folder, text):
    folder.mkdir(exist_ok=True)
    (folder / "keras.json").write_text(text)


def test_tensorflow_where_nothing_is_set(fresh):
    assert _backend.keras_backend()[0] == "tensorflow"
    _backend.require_tensorflow()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"floatx": "float32"}'])
def test_a_file_that_names_no_backend_is_no_obstacle(fresh, text):
    write_settings(fresh / ".keras", text)
    _backend.require_tensorflow()


def test_the_environment_comes_before_the_file(fresh, monkeypatch):
    write_settings(fresh / ".keras", json.dumps({"backend": "torch"}))
    assert _backend.keras_backend()[0] == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    _backend.require_tensorflow()
    # Keras takes an empty variable for none.
    monkeypatch.setenv("KERAS_BACKEND", "")
    assert _backend.keras_backend()[0] == "torch"


def test_keras_home_moves_the_file(fresh, monkeypatch):
    write_settings(fresh / "elsewhere", json.dumps({"backend": "jax"}))
    monkeypatch.setenv("KERAS_HOME", str(fresh / "elsewhere"))
    assert _backend.keras_backend() == ("jax", f"by {fresh / 'elsewhere' / 'keras.json'}")


def test_a_running_keras_decides(fresh, monkeypatch):
    running = types.SimpleNamespace(config=types.SimpleNamespace(backend=lambda: "torch"))
    monkeypatch.setitem(sys.modules, "keras", running)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    with pytest.raises(_backend.KerasBackendError, match=r"received 'torch'.*already imported"):
        _backend.require_tensorflow()
