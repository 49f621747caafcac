"""The page on post-hoc steps runs."""

import re

import keras
import numpy as np
import pytest

from s2d_tf import models, posthoc


@pytest.fixture(scope="module")
def names():
    keras.utils.set_random_seed(0)
    inputs = keras.Input([4, 4, 1])
    features = keras.layers.Dense(8, "relu")(keras.layers.Flatten()(inputs))
    backbone = keras.Model(inputs, features)
    model = models.S2DClassifier(backbone, 3, seed=0)
    random = np.random.default_rng(0)
    images = random.integers(0, 256, [40, 4, 4, 1], dtype=np.uint8)
    outputs = posthoc.collect(model, images)
    # Labels that an untrained network gets right more often than not.
    labels = outputs.member_logits[0].argmax(axis=-1)
    labels[:3] = range(3)
    head = model.head.kernel
    head.assign(head + 0.01 * random.normal(size=head.shape))
    return {"posthoc": posthoc, "model": model, "images": images, "labels": labels}


def test_the_document_runs(names, project_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (project_root / "docs" / "posthoc.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    scope = dict(names)
    exec(compile(block, "posthoc.md", "exec"), scope)
    assert {"knn", "prediction_set", "abstain"} <= set(scope["found"])
    for name in posthoc.STEPS:
        assert f"`{name}" in text, name
