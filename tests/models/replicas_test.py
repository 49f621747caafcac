"""One replica or two: the same losses, logs and weights, through plain `fit`."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import losses, models
from s2d_tf.backbones.batch_norm import BatchNormalization
from tests.models.tiny import CLASSES, IMAGES, LABELS, PAIR_LABELS, PAIRS, backbone

WEIGHTS = np.linspace(0.5, 2, 12, dtype=np.float32)
TEACHER_LOGITS = np.random.default_rng(0).normal(1, 1.5, [12, 4, CLASSES]).astype(np.float32)
COMMON = {"mean": [128.0], "stddev": [64.0], "weight_decay": 0.01, "seed": 0}


def synchronized():
    images = keras.Input([8, 8, 1])
    initializer = keras.initializers.GlorotUniform(seed=1)
    x = keras.layers.Conv2D(4, 3, kernel_initializer=initializer)(images)
    x = BatchNormalization(synchronized=True)(x)
    return keras.Model(images, keras.layers.GlobalAveragePooling2D()(keras.layers.ReLU()(x)))


TARGETS = {"labels": LABELS, "teacher_logits": TEACHER_LOGITS}
CASES = {
    "mimo": (
        lambda: models.Classifier(backbone(2), CLASSES, num_heads=2, **COMMON),
        (PAIRS, PAIR_LABELS),
    ),
    "s2d": (
        lambda: models.S2DClassifier(synchronized(), CLASSES, student_weight=0.1, **COMMON),
        (IMAGES, LABELS, WEIGHTS),
    ),
    "student": (
        lambda: models.Student(backbone(), CLASSES, losses.NormalKLDivergence(), **COMMON),
        (IMAGES, TARGETS),
    ),
}


@pytest.fixture(scope="module")
def replicas():
    """One strategy for all cases, with keys of its own.

    TensorFlow remembers the shapes that collectives had under a key for the rest of the process,
    and every strategy starts from the same keys.
    """
    devices = [device.name for device in tf.config.list_logical_devices("CPU")]
    assert len(devices) >= 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tf.distribute.MirroredStrategy, "_collective_key_base", 100_000)
        return tf.distribute.MirroredStrategy(devices[:2])


def run(make, data, strategy):
    with strategy.scope():
        model = make()
        model.compile(keras.optimizers.SGD(0.05, momentum=0.9))
    dataset = tf.data.Dataset.from_tensor_slices(data).batch(4, drop_remainder=True)
    history = model.fit(dataset, epochs=2, verbose=0).history
    return history, model.get_weights()


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n == "s2d" else pytest.mark.slow) for n in sorted(CASES)]
)
def test_one_replica_equals_two(name, replicas):
    make, data = CASES[name]
    expected, weights = run(make, data, tf.distribute.get_strategy())
    found, replicated = run(make, data, replicas)
    assert set(found) == set(expected)
    for key, values in expected.items():
        np.testing.assert_allclose(found[key], values, rtol=1e-4, err_msg=key)
    for a, b in zip(replicated, weights, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=2e-5)
