"""S2DClassifier: its passes, logs and prediction."""

import gc
import weakref

import keras
import numpy as np
import scipy.special
import scipy.stats
import tensorflow as tf

from s2d_tf import layers, models
from tests.models.tiny import CLASSES, IMAGES, LABELS, s2d


def test_the_student_is_the_noise_free_pass_and_the_teacher_shares_its_layer():
    model = s2d(noise_stddev=0.3, num_samples=4)
    outputs = model(IMAGES, training=True)
    np.testing.assert_allclose(outputs["student_logits"], model(IMAGES), atol=1e-6)
    kernel, bias = model.head.kernel.numpy()[0], model.head.bias.numpy()[0]
    features = model.features(IMAGES).numpy()
    twin = layers.MultiplicativeGaussianNoise(0.3, num_samples=4, seed=0)
    noisy = twin(features[:, None]).numpy()
    np.testing.assert_allclose(outputs["teacher_logits"], noisy @ kernel + bias, atol=1e-5)


def test_without_noise_and_student_it_trains_as_the_plain_model():
    plain = s2d(kind=models.Classifier, weight_decay=1e-3)
    twin = s2d(weight_decay=1e-3, student_weight=0.0, noise_stddev=0.0)
    assert twin.count_params() == plain.count_params()
    assert len(twin.trainable_variables) == len(plain.trainable_variables)
    settings = {"batch_size": 7, "shuffle": False, "verbose": 0}
    expected = plain.fit(IMAGES, LABELS, **settings).history
    found = twin.fit(IMAGES, LABELS, **settings).history
    for name in expected:
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5)
    for a, b in zip(twin.get_weights(), plain.get_weights(), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def test_logged_parts_add_up_also_with_a_smaller_last_batch():
    model = s2d(student_weight=0.5)
    logs = model.fit(IMAGES[:7], LABELS[:7], batch_size=4, verbose=0).history
    assert set(logs) == {"loss", "accuracy", "teacher_loss", "student_loss", "log_concentration"}
    total = logs["teacher_loss"][0] + 0.5 * logs["student_loss"][0]
    np.testing.assert_allclose(logs["loss"][0], total, rtol=1e-5)


def test_noise_of_another_precision_is_accepted():
    model = s2d(noise=layers.BernoulliNoise(0.3, num_samples=2, dtype="float64"))
    assert model(IMAGES, training=True)["teacher_logits"].dtype == tf.float32


def test_kind_members_and_uncertainty_of_a_dirichlet():
    model = s2d()
    kind, members = model.predict_members(IMAGES)
    assert (kind, members.shape, model.num_members) == ("dirichlet", (1, 12, CLASSES), 1)
    answer = model.predict_uncertainty(IMAGES)
    concentration = np.exp(np.float64(members[0]))
    total = concentration.sum(axis=-1, keepdims=True)
    probs = concentration / total
    np.testing.assert_allclose(answer["probs"], probs, rtol=1e-5)
    psi = scipy.special.psi
    data = (probs * (psi(total + 1) - psi(concentration + 1))).sum(axis=-1)
    entropy = scipy.stats.entropy(probs, axis=-1)
    np.testing.assert_allclose(answer["data"], data, rtol=1e-4)
    np.testing.assert_allclose(answer["total"], entropy, rtol=1e-5)
    np.testing.assert_allclose(answer["knowledge"], entropy - data, rtol=1e-3)


def test_a_model_that_answered_can_be_collected():
    model = s2d()
    model.predict_uncertainty(IMAGES)
    reference = weakref.ref(model)
    del model
    keras.backend.clear_session()
    gc.collect()
    assert reference() is None
