"""What `predict_uncertainty` returns, as a person sees it; and what `summary` prints."""

import copy
import io
import pickle

import keras
import numpy as np
import pytest

from s2d_tf import models, posthoc, zoo
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
    assert list(answers) == ["probs", "confidence", "total", "data", "knowledge"]
    assert all(type(value) is np.ndarray for value in answers.values())
    for other in (copy.copy(answers), pickle.loads(pickle.dumps(answers))):
        assert repr(other) == repr(answers)
        assert other.class_names == answers.class_names
    assert type({**answers}) is dict


def test_it_prints_as_a_table(answers):
    lines = repr(answers).splitlines()
    assert lines[0] == "Answers for 14 inputs, 3 classes"
    assert lines[1].split() == ["class", "confidence", "total", "data", "knowledge"]
    assert lines[-1] == "... 4 more"
    assert len(lines) == 2 + 10 + 1
    for i, line in enumerate(lines[2:-1]):
        number, *name, confidence, total, data, knowledge = line.split()
        assert int(number) == i
        label = answers["probs"][i].argmax()
        assert " ".join(name) == ["ant", "bee", "a name that is much too…"][label]
        found = [float(each) for each in (confidence, total, data, knowledge)]
        expected = [answers[key][i] for key in ("confidence", "total", "data", "knowledge")]
        np.testing.assert_allclose(found, expected, atol=5e-5)
    assert len(set(map(len, lines[1:-1]))) == 1  # aligned


def test_it_prints_what_steps_add(model, images):
    labels = model.predict_uncertainty(images)["probs"].argmax(axis=-1)
    step = posthoc.ConformalSets(coverage=0.9).fit(model, (images, labels))
    step = posthoc.SelectiveClassifier(max_risk=0.5).fit(step, (images, labels))
    found = step.predict_uncertainty(images)
    assert isinstance(found, Answers)
    head, first = repr(found).splitlines()[1:3]
    assert head.split()[-2:] == list(found)[-2:]
    assert first.endswith("yes" if found["abstain"][0] else "no")
    one = Answers({"set": np.array([[True, False, True]]), "depth": np.array([3])}, "abc")
    assert repr(one).splitlines()[1:] == ["    set  depth", "0  a, c      3"]
    assert repr(Answers()) == "Answers for no inputs"


def test_tiny_values_are_not_zero():
    shown = repr(Answers({"total": np.float32([0, 1e-6, 0.5])})).split()
    assert shown[-5:] == ["0.0000", "1", "<0.0001", "2", "0.5000"]


def test_the_plot_shows_inputs_and_bars(answers, images, tmp_path):
    labels = np.zeros(len(images), int)
    figure = answers.plot(images, labels, count=5, by="total", path=tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    assert figure._repr_png_().startswith(b"\x89PNG")
    *rows, bars = figure.axes
    order = np.argsort(-answers["total"], kind="stable")[:5]
    for axis, index in zip(rows, order, strict=True):
        np.testing.assert_array_equal(axis.images[0].get_array(), images[index, ..., 0])
    widths = [patch.get_width() for patch in bars.patches]
    np.testing.assert_allclose(widths[:5], answers["data"][order], rtol=1e-6)
    np.testing.assert_allclose(widths[5:], answers["knowledge"][order], rtol=1e-6)
    names = [label.get_text() for label in bars.get_yticklabels()]
    for name, index in zip(names, order, strict=True):
        label = answers["probs"][index].argmax()
        assert name.startswith(f"{answers.name_of(label)}  {answers['confidence'][index]:.0%}")
        assert ("is ant" in name) == (label != 0)


def test_the_plot_of_texts_and_of_anything(answers):
    texts = np.array([f"sentence {i}" for i in range(14)])
    figure = answers.plot(texts, count=3)
    assert [axis.texts[0].get_text() for axis in figure.axes[:3]] == list(texts[:3])
    assert answers.plot(count=1).axes[0].texts[0].get_text() == "input 0"
    assert answers.plot(np.zeros([14, 5]), count=1).axes[0].texts[0].get_text() == "input 0"
    with pytest.raises(ValueError, match="inputs: expected 14, one for each answer, received 2"):
        answers.plot(texts[:2])
    with pytest.raises(ValueError, match="by: expected one of"):
        answers.plot(by="probs")


def test_the_summary_says_what_it_takes_and_predicts(model, capsys):
    model.summary()
    text = capsys.readouterr().out
    assert text.startswith("S2DClassifier of s2d_tf\n")
    for line in (
        "classes     3 (ant, bee, a name",
        "takes       images [batch, 6, 6, 1] float32 in 0 to 255",
        "predicts    a Dirichlet over class probabilities, in one forward pass",
        "answers     total, data and knowledge uncertainty",
        "parameters  111 trained",
        "learns by   S2D: 5 noisy teacher passes (noise 0 to 0.5), temperature 1.5",
    ):
        assert line in text
    assert "Total params" in text  # Keras' own


def test_the_summary_of_others():
    lines = []
    backbone = keras.Sequential([keras.Input([5]), keras.layers.Dense(2)])
    members = [models.Classifier(backbone, 3, seed=i) for i in range(2)]
    members[0].summary(print_fn=lambda text, **_: lines.append(text))
    assert "total uncertainty, which one softmax cannot decompose" in lines[0]
    assert "takes       inputs [batch, 5] float32\n" in lines[0]
    lines.clear()
    models.Ensemble(members).summary(print_fn=lambda text, **_: lines.append(text))
    assert "2 members, each a softmax" in lines[0]
    lines.clear()
    zoo.load("wrn_10_2_s2.s2d.digits").summary(print_fn=lambda text, **_: lines.append(text))
    assert "classes      8 (0, 1, 2, ..., 7)" in lines[0]
    assert "loaded from  wrn_10_2_s2.s2d.digits" in lines[0]


def test_other_options_of_the_summary_reach_keras(model):
    found = io.StringIO()
    model.summary(print_fn=lambda text, **_: found.write(text), expand_nested=True)
    assert "flatten" in found.getvalue()
