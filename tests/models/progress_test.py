"""Bars in a terminal, in a notebook and in a log file."""

import io
import re
import sys
import types

import keras
import numpy as np
import pytest

from s2d_tf import _progress, models
from s2d_tf.models.progress import ProgressBar

CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def model():
    backbone = keras.Sequential([keras.Input([4]), keras.layers.Dense(3)])
    made = models.Classifier(backbone, 2, seed=0)
    made.compile()
    return made


@pytest.fixture
def arrays():
    random = np.random.RandomState(0)
    return random.normal(size=[20, 4]).astype(np.float32), random.randint(0, 2, 20)


class Handle:
    def __init__(self, content):
        self.contents = [content["text/plain"]]

    def update(self, content, raw):
        self.contents.append(content["text/plain"])


@pytest.fixture
def outputs(monkeypatch):
    """What a notebook's cell shows: a list of its outputs, as if a kernel ran this test."""
    found = []

    def display(content, raw, display_id):
        found.append(Handle(content))
        return found[-1]

    shell = types.SimpleNamespace(kernel=object())
    monkeypatch.setitem(sys.modules, "ipykernel", types.ModuleType("ipykernel"))
    fake = types.SimpleNamespace(get_ipython=lambda: shell)
    monkeypatch.setitem(sys.modules, "IPython", fake)
    monkeypatch.setitem(sys.modules, "IPython.display", types.SimpleNamespace(display=display))
    return found


def test_fit_and_evaluate_write_plain_lines_into_a_file(model, arrays, capsys):
    history = model.fit(*arrays, batch_size=5, epochs=3, validation_data=arrays)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    for i, line in enumerate(lines):
        assert line.startswith(f"Epoch {i + 1}/3: 4/4 [")
        assert not CONTROL.search(line)
        for name, values in history.history.items():
            assert f"{name}={values[i]:.4g}" in line
    found = model.evaluate(*arrays, batch_size=5)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("4/4 [")
    assert f"loss={found[0]:.4g}" in line
    for verbose in (0, 2):
        model.fit(*arrays, verbose=verbose)
        assert ("step" in capsys.readouterr().out) == (verbose == 2)


def test_a_saved_notebook_has_one_output_without_control_codes(model, arrays, outputs, capsys):
    model.fit(*arrays, batch_size=5, epochs=3)
    assert capsys.readouterr().out == ""
    (output,) = outputs
    lines = output.contents[-1].splitlines()
    assert [line[:9] for line in lines] == ["Epoch 1/3", "Epoch 2/3", "Epoch 3/3"]
    assert all("100%" in line and "4/4" in line and "loss=" in line for line in lines)
    assert not any(CONTROL.search(line) for line in lines)
    assert output.contents[-1].count("\n") == 2


def test_a_terminal_has_one_line_for_each_epoch(model, arrays, monkeypatch):
    screen = Terminal()
    monkeypatch.setattr(sys, "stdout", screen)
    model.fit(*arrays, batch_size=5, epochs=2)
    lines = screen.getvalue().split("\n")
    assert len(lines) == 3
    for i, line in enumerate(lines[:2]):
        last = line.split("\r")[-1]
        assert last.startswith(f"Epoch {i + 1}/2: 100%|")
        assert not CONTROL.search(last)


def test_steps_of_unknown_number(model, arrays, capsys):
    def batches():
        for _ in range(3):
            yield arrays

    model.fit(batches(), epochs=1)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("3/3 [")


def test_a_bar_of_ones_own_stays(model, arrays, capsys):
    own = keras.callbacks.ProgbarLogger()
    assert ProgressBar.added_to([own]) == [own]
    assert ProgressBar.added_to(None, verbose=0) is None
    (added,) = ProgressBar.added_to(None)
    assert isinstance(added, ProgressBar)


def test_long_work_in_a_file_is_a_line_now_and_then(monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(_progress.time, "monotonic", lambda: clock[0])
    log = io.StringIO()
    with _progress.Bar(1000, "image", "reading", initial=100, stream=log) as bar:
        for _ in range(9):
            clock[0] += 21.0
            bar.update(100)
    lines = log.getvalue().splitlines()
    assert [line.split(" [")[0] for line in lines] == [
        "reading: 400/1000",
        "reading: 700/1000",
        "reading: 1000/1000",
        "reading: 1000/1000",
    ]
    assert "01:03<02:06" in lines[0]  # 300 of 900 in 63 s
    assert not any(CONTROL.search(line) for line in lines)


def test_a_shorter_line_leaves_nothing_of_a_longer_one():
    stream = Terminal()
    screen = _progress.Terminal(stream)
    screen.show("long text", final=False)
    screen.show("short", final=True)
    assert stream.getvalue() == "\rlong text\rshort    \n"
    quiet = io.StringIO()
    with _progress.Bar(3, "x", shown=False, stream=quiet) as bar:
        bar.update(3)
    assert (bar.count, quiet.getvalue()) == (3, "")
