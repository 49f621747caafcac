"""Which Keras backend the package believes to be in use, and what it does about it."""

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


@pytest.mark.parametrize("text", [None, "", "{", "[]", "{}", '{"floatx": "float32"}'])
def test_tensorflow_where_nothing_names_another(fresh, text):
    if text is not None:
        write_settings(fresh / ".keras", text)
    assert _backend.keras_backend()[0] == "tensorflow"
    _backend.require_tensorflow()


def test_a_running_keras_comes_before_the_environment_and_that_before_the_file(fresh, monkeypatch):
    write_settings(fresh / ".keras", '{"backend": "torch"}')
    assert _backend.keras_backend()[0] == "torch"
    monkeypatch.setenv("KERAS_BACKEND", "")  # which Keras takes for none
    assert _backend.keras_backend()[0] == "torch"
    write_settings(fresh / "elsewhere", '{"backend": "jax"}')
    monkeypatch.setenv("KERAS_HOME", str(fresh / "elsewhere"))
    assert _backend.keras_backend() == ("jax", f"by {fresh / 'elsewhere' / 'keras.json'}")
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    _backend.require_tensorflow()
    running = types.SimpleNamespace(config=types.SimpleNamespace(backend=lambda: "torch"))
    monkeypatch.setitem(sys.modules, "keras", running)
    with pytest.raises(_backend.KerasBackendError, match=r"received 'torch'.*already imported"):
        _backend.require_tensorflow()
