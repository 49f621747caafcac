"""Every pretrained entry of the zoo exports, and its export answers as it does."""

import json

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, zoo

PRETRAINED = zoo.names(pretrained=True)


def compare(name, folder):
    model = zoo.load(name)
    examples = model.contract.sample(5)
    examples = examples.astype(np.uint8) if model.image_shape else examples
    path = export.save(model, folder)
    answers = tf.saved_model.load(str(path)).signatures["serving_default"](tf.constant(examples))
    expected = model.predict_uncertainty(examples)
    np.testing.assert_allclose(answers["probabilities"], expected["probs"], rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(answers["label"], expected["probs"].argmax(axis=-1))
    np.testing.assert_allclose(answers["confidence"], expected["confidence"], rtol=1e-4)
    for key in ("total", "data", "knowledge"):
        np.testing.assert_allclose(
            answers[f"{key}_uncertainty"], expected[key], rtol=1e-4, atol=2e-6
        )
    # Class names come with the model.
    text = (path / "assets" / "classes.txt").read_text(encoding="utf-8")
    assert text.splitlines() == list(zoo.entry(name).record.class_names)
    description = json.loads((path / "assets" / "model.json").read_text(encoding="utf-8"))
    assert description["class_names"] == text.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("name", PRETRAINED)
def test_a_pretrained_entry_exports(name, tmp_path):
    compare(name, tmp_path)


def test_one_pretrained_entry_exports(tmp_path):
    names = [name for name in PRETRAINED if name.endswith(".s2d.digits")] or PRETRAINED[:1]
    if not names:
        pytest.skip("the zoo holds no pretrained entry yet")
    compare(names[0], tmp_path)
