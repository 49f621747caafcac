"""Every pretrained entry of the zoo exports, and its export answers as it does."""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import export, zoo
from tests.export.conftest import NAMES

PRETRAINED = [
    pytest.param(name, marks=() if name == "wrn_10_2_s2.s2d.digits" else pytest.mark.slow)
    for name in zoo.names(pretrained=True)
]


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_pretrained_entry_exports(name, tmp_path):
    model = zoo.load(name)
    examples = model.contract.sample(5)
    examples = examples.astype(np.uint8) if model.image_shape else examples
    version = export.load(export.save(model, tmp_path))
    assert version.class_names == tuple(zoo.entry(name).record.class_names)
    answers = version.signatures["serving_default"](tf.constant(examples))
    expected = model.predict_uncertainty(examples)
    np.testing.assert_array_equal(answers["label"], expected["label"])
    for output, key in NAMES.items():
        np.testing.assert_allclose(answers[output], expected[key], rtol=1e-4, atol=2e-6)
