"""What `predict_uncertainty` returns, as a person sees it."""

import copy
import pickle

import keras
import numpy as np
import pytest

from s2d_tf import models
from s2d_tf.models.answers import Answers


@pytest.fixture(scope="module")
def model():
    backbone = keras.Sequential([keras.Input((6, 6, 1)), keras.layers.Flatten()])
    made = models.S2DClassifier(backbone, 3, mean=120.0, stddev=400.0, seed=0)
    made.class_names = ["ant", "bee", "a name that is much too long for a table"]
    return made


@pytest.fixture(scope="module")
def images():
    return np.random.RandomState(0).randint(0, 256, [14, 6, 6, 1]).astype(np.uint8)


@pytest.fixture(scope="module")
def answers(model, images):
    return model.predict_uncertainty(images)


def test_it_is_still_a_dict_of_arrays(answers):
    assert isinstance(answers, dict)
    assert all(type(value) is np.ndarray for value in answers.values())
    for other in (copy.copy(answers), pickle.loads(pickle.dumps(answers))):
        assert repr(other) == repr(answers)
        assert other.class_names == answers.class_names


def test_it_prints_as_a_table(answers):
    lines = repr(answers).splitlines()
    assert lines[0] == "Answers for 14 inputs"
    assert lines[1].split() == ["label", "confidence", "total", "data", "knowledge"]
    assert lines[-1] == "... 4 more"
    assert len(lines) == 2 + 10 + 1
    for i, line in enumerate(lines[2:-1]):
        number, *name = line.split()[:-4]
        assert int(number) == i
        assert " ".join(name) == ["ant", "bee", "a name that is much too…"][answers["label"][i]]
        expected = [answers[key][i] for key in ("confidence", "total", "data", "knowledge")]
        np.testing.assert_allclose(np.float64(line.split()[-4:]), expected, atol=5e-5)
    assert len(set(map(len, lines[1:-1]))) == 1  # aligned


def test_it_prints_what_steps_add():
    assert repr(Answers({"abstain": np.array([True, False])})).split()[-3:] == ["yes", "1", "no"]
    one = Answers({"set": np.array([[True, False, True]]), "depth": np.array([3])}, "abc")
    assert repr(one).splitlines()[1:] == ["    set  depth", "0  a, c      3"]
    assert repr(Answers()).startswith("Answers for 0 inputs")
    shown = repr(Answers({"total": np.float32([0, 1e-6, 0.5])})).split()
    assert shown[-5:] == ["0.0000", "1", "<0.0001", "2", "0.5000"]


def test_the_plot_shows_inputs_and_bars(answers, images, tmp_path):
    labels = np.zeros(len(images), int)
    figure = answers.plot(images, labels, count=5, by="total", path=tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    order = np.argsort(-answers["total"], kind="stable")[:5]
    pairs = zip(figure.axes[::2], figure.axes[1::2], order, strict=True)
    for left, right, index in pairs:
        np.testing.assert_array_equal(left.images[0].get_array(), images[index, ..., 0])
        widths = [patch.get_width() for patch in right.patches]
        expected = [answers["data"][index], answers["knowledge"][index]]
        np.testing.assert_allclose(widths, expected, rtol=1e-4, atol=1e-6)
        name = right.get_yticklabels()[0].get_text()
        label = answers["label"][index]
        assert name.startswith(f"{answers.name_of(label)}  {answers['confidence'][index]:.0%}")
        assert ("is ant" in name) == (label != 0)
