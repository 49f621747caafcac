"""S2DClassifier: its passes and logs, and the loss of section 3 from first principles."""

import gc
import weakref

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import tensorflow as tf

from s2d_tf import layers, models
from tests import contracts, oracles
from tests.models.tiny import CLASSES, IMAGES, LABELS, PAIR_LABELS, PAIRS, s2d


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
    contracts.assert_same(twin.get_weights(), plain.get_weights(), atol=1e-6)


def test_logged_parts_add_up_also_with_a_smaller_last_batch():
    model = s2d(student_weight=0.5)
    logs = model.fit(IMAGES[:7], LABELS[:7], batch_size=4, verbose=0).history
    assert set(logs) == {"loss", "accuracy", "teacher_loss", "student_loss", "log_concentration"}
    total = logs["teacher_loss"][0] + 0.5 * logs["student_loss"][0]
    np.testing.assert_allclose(logs["loss"][0], total, rtol=1e-5)


def test_a_model_that_answered_can_be_collected():
    model = s2d()
    model.predict_uncertainty(IMAGES)
    reference = weakref.ref(model)
    del model
    keras.backend.clear_session()
    gc.collect()
    assert reference() is None


def loss_and_gradients(model, outputs):
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = model.compute_loss(IMAGES, tf.constant(LABELS), outputs)
    return loss, tape.gradient(loss, outputs)


def cross_entropy(logits, label):
    return -scipy.special.log_softmax(np.float64(logits), axis=-1)[..., label]


def fitted_precision(probs):
    """The mean of the samples times the total that is most likely for it."""
    mean, mean_log = probs.mean(axis=0), np.log(probs).mean(axis=0)

    def negative_log_likelihood(log_total):
        a = mean * np.exp(log_total)
        return scipy.special.gammaln(a).sum() - scipy.special.gammaln(a.sum()) - (a - 1) @ mean_log

    best = scipy.optimize.minimize_scalar(
        negative_log_likelihood, bounds=(-5, 15), method="bounded", options={"xatol": 1e-10}
    )
    return mean * np.exp(best.x)


def first_authors_proxy(probs):
    """`fitted_precision`, each concentration through a softplus of sharpness 5 in log space."""
    return (1 + fitted_precision(probs) ** 5) ** 0.2


def student_loss(kind, proxy, teacher_logits, student_logits, temperature):
    if kind == "log_likelihood":
        return oracles.dirichlet_nll(teacher_logits, student_logits, temperature)
    log_probs = scipy.special.log_softmax(np.float64(teacher_logits) / temperature, axis=-1)
    student, target = np.exp(np.float64(student_logits)), oracles.moment_match(log_probs.mean(0))
    if proxy == "mean_precision":
        target = first_authors_proxy(np.exp(log_probs))
    pair = (student, target) if kind == "reverse_kl" else (target, student)
    return oracles.dirichlet_kl(*pair)


def section_3(outputs, labels, weight, kind="kl", proxy="newton", temperature=1.5):
    """L = L_th + mu L_st, from one head's outputs."""
    student, teacher = outputs["student_logits"].numpy(), outputs["teacher_logits"].numpy()[:, 0]
    losses = [
        cross_entropy(teacher[i], labels[i]).mean()
        + weight * student_loss(kind, proxy, teacher[i], student[i], temperature)
        for i in range(len(labels))
    ]
    return np.mean(losses)


OPTIONS = {
    "kl": {"student_loss": "kl"},
    "mean_precision": {"student_loss": "kl", "proxy": "mean_precision"},
    "reverse_kl": {"student_loss": "reverse_kl"},
    "log_likelihood": {"student_loss": "log_likelihood"},
    "temperature": {"student_loss": "kl", "temperature": 3.0},
    "bernoulli": {"student_loss": "kl", "noise": "bernoulli"},
}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_loss_is_section_3(name):
    options = dict(OPTIONS[name])
    if "noise" in options:
        options["noise"] = layers.BernoulliNoise(0.3, num_samples=4, seed=0)
    model = s2d(student_weight=0.7, noise_stddev=(0.1, 0.6), num_samples=4, **options)
    outputs = model(IMAGES, training=True)
    assert outputs["teacher_logits"].shape == (12, 1, 4, CLASSES)
    loss = model.compute_loss(IMAGES, tf.constant(LABELS), outputs)
    expected = section_3(
        outputs,
        LABELS,
        0.7,
        options["student_loss"],
        options.get("proxy", "newton"),
        options.get("temperature", 1.5),
    )
    np.testing.assert_allclose(loss, expected, rtol=2e-5)


@pytest.mark.parametrize("weight", [1e-4, 0.5])
def test_balanced_student_loss_weighs_no_example_more_than_its_label(weight):
    model = s2d(student_weight=weight, noise_stddev=0.1, num_samples=4)
    outputs = model(IMAGES, training=True)
    # Total concentrations from 1e-2 to 1e7: below and far above 1 / weight.
    offsets = np.linspace(-6.0, 15.0, len(LABELS), dtype="float32")[:, None]
    outputs["student_logits"] += offsets
    loss, gradients = loss_and_gradients(model, outputs)
    student = outputs["student_logits"].numpy().astype("float64")
    teacher = outputs["teacher_logits"].numpy()[:, 0]
    parts = [student_loss("kl", "newton", t, s, 1.5) for t, s in zip(teacher, student, strict=True)]
    shares = np.minimum(1.0, 1.0 / (weight * np.exp(student).sum(axis=-1)))
    assert shares.min() < 0.01
    assert shares.max() == 1.0
    labels_part = np.mean([cross_entropy(*pair) for pair in zip(teacher, LABELS, strict=True)])
    np.testing.assert_allclose(loss, labels_part + weight * np.mean(shares * parts), rtol=1e-4)
    # The gradient of an example is bounded by its log-ratios, however concentrated it is.
    rows = np.linalg.norm(gradients["student_logits"], axis=-1) * len(LABELS)
    assert rows.max() < 20
    paper = s2d(student_weight=weight, noise_stddev=0.1, num_samples=4, student_loss="kl")
    _, gradients = loss_and_gradients(paper, outputs)
    free = np.linalg.norm(gradients["student_logits"], axis=-1) * len(LABELS)
    assert free.max() > 50 * rows.max()
    np.testing.assert_allclose(rows[shares == 1.0], free[shares == 1.0], rtol=1e-4)


@pytest.mark.parametrize("kind", ["balanced_kl", "kl", "reverse_kl", "log_likelihood"])
def test_target_is_detached(kind):
    """The teacher's gradient is that of its cross-entropy, whatever the student's weight."""
    model = s2d(student_weight=1e3, student_loss=kind, num_samples=4)
    outputs = model(IMAGES, training=True)
    _, gradients = loss_and_gradients(model, outputs)
    probs = scipy.special.softmax(np.float64(outputs["teacher_logits"]), axis=-1)
    expected = (probs - np.eye(CLASSES)[LABELS][:, None, None]) / (12 * 4)
    np.testing.assert_allclose(gradients["teacher_logits"], expected, atol=1e-6)
    least = 1e-3 if kind == "balanced_kl" else 1  # the balance bounds any weight
    assert np.abs(gradients["student_logits"]).max() > least


def test_mimo_loss_is_the_sum_of_one_s2d_loss_for_each_head():
    model = s2d(num_heads=2, student_weight=0.7, student_loss="kl", num_samples=4)
    outputs = model(PAIRS, training=True)
    assert outputs["student_logits"].shape == (2, 12, CLASSES)
    assert outputs["teacher_logits"].shape == (12, 2, 4, CLASSES)
    loss = model.compute_loss(PAIRS, tf.constant(PAIR_LABELS), outputs)
    heads = []
    for h in range(2):
        own = {
            "student_logits": outputs["student_logits"][h],
            "teacher_logits": outputs["teacher_logits"][:, h : h + 1],
        }
        heads.append(section_3(own, PAIR_LABELS[:, h], 0.7))
    np.testing.assert_allclose(loss, sum(heads), rtol=2e-5)
    noise = model.noise(np.ones([3, 2, 5], np.float32)).numpy()
    assert not np.array_equal(noise[:, 0], noise[:, 1]), "each head has noise of its own"


def test_one_sample_and_extreme_logits_stay_finite():
    one, model = s2d(num_samples=1, student_weight=1e-4), s2d(student_weight=1.0)
    cases = [(one, one(IMAGES, training=True))]
    for size in (1e4, -1e4):
        student = tf.constant(size * np.eye(CLASSES)[LABELS], tf.float32)
        teacher = tf.repeat(student[:, None, None], 5, axis=2)
        cases.append((model, {"student_logits": student, "teacher_logits": teacher}))
    for each, outputs in cases:
        loss, gradients = loss_and_gradients(each, outputs)
        assert np.isfinite(loss)
        assert all(np.isfinite(gradient).all() for gradient in gradients.values())


def test_evaluation_logs_are_those_of_the_student_alone():
    model = s2d()
    logs = model.evaluate(IMAGES, LABELS, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "accuracy"}
    logits = model(IMAGES).numpy()
    expected = np.mean([cross_entropy(logits[i], LABELS[i]) for i in range(12)])
    np.testing.assert_allclose(logs["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(logs["accuracy"], np.mean(logits.argmax(-1) == LABELS))


@pytest.mark.parametrize("name", ["bernoulli", "mean_precision"])
def test_config_round_trip(name):
    options = dict(OPTIONS[name])
    if "noise" in options:
        options["noise"] = layers.BernoulliNoise(0.3, num_samples=4, seed=0)
    model = s2d(noise_stddev=(0.1, 0.6), student_weight=0.2, weight_decay=1e-3, **options)
    twin = contracts.run_saving_test(model, IMAGES)
    outputs = model(IMAGES, training=True)
    contracts.assert_same(twin(IMAGES, training=True), outputs)
    labels = tf.constant(LABELS)
    np.testing.assert_allclose(
        model.compute_loss(IMAGES, labels, outputs), twin.compute_loss(IMAGES, labels, outputs)
    )
    type(model).from_config({**model.get_config(), "teacher": None})  # of version 0.1
    with pytest.raises(ValueError, match="teacher"):
        type(model).from_config({**model.get_config(), "teacher": "head"})
