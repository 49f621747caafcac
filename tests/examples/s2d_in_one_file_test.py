"""The method in one file computes what the library computes."""

import importlib.util

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import models, numerics, uncertainty

RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def example(project_root):
    path = project_root / "examples" / "s2d_in_one_file.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("spread", [0.01, 0.1, 1.0, 3.0])
def test_the_proxy(example, spread):
    logits = 3.0 * RANDOM.normal(size=[64, 1, 8]) + spread * RANDOM.normal(size=[64, 5, 8])
    log_probs = tf.nn.log_softmax(logits)
    expected = numerics.fit_dirichlet(log_probs, tolerance=1e-9)
    np.testing.assert_allclose(example.fit_dirichlet(log_probs), expected, rtol=1e-5)


def test_the_loss(example):
    backbone = keras.Sequential([keras.Input([4]), keras.layers.Dense(6)])
    model = models.S2DClassifier(
        backbone, 8, temperature=1.5, student_weight=1.28e-4, student_loss="kl"
    )
    model.compile()
    teacher = RANDOM.normal(size=[32, 5, 8]).astype("float32")
    student = 5.0 + 2.0 * RANDOM.normal(size=[32, 8]).astype("float32")
    labels = RANDOM.integers(0, 8, 32)
    outputs = {"student_logits": tf.constant(student), "teacher_logits": teacher[:, None]}
    expected = model.compute_loss(None, tf.constant(labels), outputs)
    received = example.s2d_loss(tf.constant(labels), tf.constant(teacher), tf.constant(student))
    np.testing.assert_allclose(received, expected, rtol=1e-5)


def test_the_uncertainties(example):
    logits = 4.0 * RANDOM.normal(size=[64, 8])
    expected = uncertainty.from_log_concentrations(logits)
    for name, received in example.uncertainties(logits).items():
        np.testing.assert_allclose(received, expected[name], rtol=1e-5, atol=1e-7)


def test_it_trains_and_prints_its_table(example, capsys):
    example.main(num_seeds=1, epochs=1)
    head, plain, s2d, _ = capsys.readouterr().out.splitlines()
    assert (head.split()[0], len(plain.split()), len(s2d.split())) == ("accuracy", 13, 16)
