"""S2DClassifier: the loss of section 3 from first principles, its options and its cost."""

import gc
import weakref

import keras
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf

from s2d_tf import layers, models

CLASSES = 3
RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, [12, 8, 8, 1]).astype(np.uint8)
LABELS = np.arange(12) % CLASSES
PAIRS = np.stack([IMAGES, IMAGES[::-1]], axis=1)
PAIR_LABELS = np.stack([LABELS, LABELS[::-1]], axis=1)


def backbone(channels=1, width=6):
    images = keras.Input([8, 8, channels])
    initializer = keras.initializers.GlorotUniform(seed=1)
    x = keras.layers.Dense(width, "tanh", kernel_initializer=initializer)(
        keras.layers.Flatten()(images)
    )
    return keras.Model(images, x)


def s2d(num_heads=1, kind=models.S2DClassifier, **kwargs):
    kwargs = {"mean": [128.0], "stddev": [64.0], "seed": 0, **kwargs}
    model = kind(backbone(num_heads), CLASSES, num_heads=num_heads, **kwargs)
    model.compile(keras.optimizers.SGD(0.1, momentum=0.9), run_eagerly=True)
    return model


def cross_entropy(logits, label):
    return -scipy.special.log_softmax(np.float64(logits), axis=-1)[..., label]


def fitted_dirichlet(probs):
    """Maximum-likelihood Dirichlet of `[samples, classes]`, by SciPy's root finder."""
    mean_log = np.log(probs).mean(axis=0)

    def score(log_concentration):
        concentration = np.exp(log_concentration)
        return (
            scipy.special.psi(concentration) - scipy.special.psi(concentration.sum()) - mean_log
        ) * concentration

    mean = probs.mean(axis=0)
    total = (len(mean) - 1) / 2 / (mean @ (np.log(mean) - mean_log))
    solution = scipy.optimize.root(score, np.log(mean * total), tol=1e-13)
    assert np.abs(score(solution.x) / np.exp(solution.x)).max() < 1e-9
    return np.exp(solution.x)


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


def dirichlet_kl(p, q):
    psi, lgamma = scipy.special.psi, scipy.special.gammaln
    return (
        lgamma(p.sum()) - lgamma(q.sum()) + (lgamma(q) - lgamma(p)).sum()
        + (p - q) @ (psi(p) - psi(p.sum()))
    )  # fmt: skip


def student_loss(kind, proxy, teacher_logits, student_logits, temperature):
    probs = scipy.special.softmax(np.float64(teacher_logits) / temperature, axis=-1)
    student = np.exp(np.float64(student_logits))
    if kind == "log_likelihood":
        return -np.mean([scipy.stats.dirichlet.logpdf(p / p.sum(), student) for p in probs])
    target = {"newton": fitted_dirichlet, "mean_precision": first_authors_proxy}[proxy](probs)
    return dirichlet_kl(student, target) if kind == "reverse_kl" else dirichlet_kl(target, student)


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
    "defaults": {},
    "mean_precision": {"proxy": "mean_precision"},
    "reverse_kl": {"student_loss": "reverse_kl"},
    "log_likelihood": {"student_loss": "log_likelihood"},
    "temperature": {"temperature": 3.0},
    "teacher_head": {"teacher": "head"},
    "bernoulli": {"noise": "bernoulli"},
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
        options.get("student_loss", "kl"),
        options.get("proxy", "newton"),
        options.get("temperature", 1.5),
    )
    np.testing.assert_allclose(loss, expected, rtol=2e-5)


def test_the_first_authors_proxy_keeps_every_concentration_above_one():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(20, 1, CLASSES)) * 4 + rng.normal(size=(20, 5, CLASSES))
    logits[0] = logits[0, :1]  # no maximum-likelihood total: the largest is taken
    target = s2d(proxy="mean_precision", temperature=1.0).student_target(
        tf.constant(logits, tf.float32)
    )
    probs = scipy.special.softmax(logits, axis=-1)
    expected = np.stack([first_authors_proxy(row) for row in probs[1:]])
    assert expected.min() < 1.01 < np.stack([fitted_precision(row) for row in probs[1:]]).max()
    np.testing.assert_allclose(np.exp(target[1:, 0]), expected, rtol=2e-5)
    assert np.all(target.numpy() >= 0)
    assert np.all(np.isfinite(target))
    np.testing.assert_allclose(np.exp(target[0, 0]).sum(), 1e8, rtol=1e-4)


def test_the_student_is_the_noise_free_pass_and_the_teacher_shares_its_layer():
    model = s2d(noise_stddev=0.3, num_samples=4)
    outputs = model(IMAGES, training=True)
    np.testing.assert_allclose(outputs["student_logits"], model(IMAGES), atol=1e-6)
    kernel, bias = model.head.kernel.numpy()[0], model.head.bias.numpy()[0]
    features = model.features(IMAGES).numpy()
    twin = layers.MultiplicativeGaussianNoise(0.3, num_samples=4, seed=0)
    noisy = twin(features[:, None]).numpy()
    np.testing.assert_allclose(outputs["teacher_logits"], noisy @ kernel + bias, atol=1e-5)


@pytest.mark.parametrize("kind", ["kl", "reverse_kl", "log_likelihood"])
def test_target_is_detached(kind):
    """The teacher's gradient is that of its cross-entropy, whatever the student's weight."""
    model = s2d(student_weight=1e3, student_loss=kind, num_samples=4)
    outputs = model(IMAGES, training=True)
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = model.compute_loss(IMAGES, tf.constant(LABELS), outputs)
    gradients = tape.gradient(loss, outputs)
    probs = scipy.special.softmax(np.float64(outputs["teacher_logits"]), axis=-1)
    expected = (probs - np.eye(CLASSES)[LABELS][:, None, None]) / (12 * 4)
    np.testing.assert_allclose(gradients["teacher_logits"], expected, atol=1e-6)
    assert np.abs(gradients["student_logits"]).max() > 1


def test_the_student_part_does_not_reach_a_teacher_of_its_own():
    gradients = []
    for weight in (0.0, 50.0):
        model = s2d(student_weight=weight, teacher="head")
        with tf.GradientTape() as tape:
            outputs = model(IMAGES, training=True)
            loss = model.compute_loss(IMAGES, tf.constant(LABELS), outputs)
        variables = [v.value for v in (model.teacher.kernel, model.teacher.bias, model.head.kernel)]
        gradients.append(tape.gradient(loss, variables, unconnected_gradients="zero"))
    np.testing.assert_allclose(gradients[0][0], gradients[1][0], atol=1e-7)
    np.testing.assert_allclose(gradients[0][1], gradients[1][1], atol=1e-7)
    assert not np.any(gradients[0][2])
    assert np.abs(gradients[1][2]).max() > 1e-3


def test_student_gradient_equals_numerical():
    model = s2d(student_weight=0.7, num_samples=4)
    outputs = model(IMAGES[:2], training=True)
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = model.compute_loss(IMAGES, tf.constant(LABELS[:2]), outputs)
    found = tape.gradient(loss, outputs["student_logits"]).numpy()
    teacher, student = outputs["teacher_logits"].numpy()[:, 0], outputs["student_logits"].numpy()
    for row, column in np.ndindex(2, CLASSES):
        values = []
        for step in (1e-5, -1e-5):
            moved = np.float64(student[row])
            moved[column] += step
            values.append(student_loss("kl", "newton", teacher[row], moved, 1.5))
        expected = 0.7 * (values[0] - values[1]) / 2e-5 / 2
        np.testing.assert_allclose(found[row, column], expected, rtol=1e-3, atol=1e-6)


def test_mimo_loss_is_the_sum_of_one_s2d_loss_for_each_head():
    model = s2d(num_heads=2, student_weight=0.7, num_samples=4)
    outputs = model(PAIRS, training=True)
    assert outputs["student_logits"].shape == (2, 12, CLASSES)
    assert outputs["teacher_logits"].shape == (12, 2, 4, CLASSES)
    loss = model.compute_loss(PAIRS, tf.constant(PAIR_LABELS), outputs)
    heads = [
        section_3(
            {
                "student_logits": outputs["student_logits"][h],
                "teacher_logits": outputs["teacher_logits"][:, h : h + 1],
            },
            PAIR_LABELS[:, h],
            0.7,
        )
        for h in range(2)
    ]
    np.testing.assert_allclose(loss, sum(heads), rtol=2e-5)
    noise = model.noise(np.ones([3, 2, 5], np.float32)).numpy()
    assert not np.array_equal(noise[:, 0], noise[:, 1]), "each head has noise of its own"


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


def test_evaluation_logs_are_those_of_the_student_alone():
    model = s2d()
    logs = model.evaluate(IMAGES, LABELS, verbose=0, return_dict=True)
    assert set(logs) == {"loss", "accuracy"}
    logits = model(IMAGES).numpy()
    expected = np.mean([cross_entropy(logits[i], LABELS[i]) for i in range(12)])
    np.testing.assert_allclose(logs["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(logs["accuracy"], np.mean(logits.argmax(-1) == LABELS))


def test_one_sample_stays_finite():
    model = s2d(num_samples=1, student_weight=1e-4)
    outputs = model(IMAGES, training=True)
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = model.compute_loss(IMAGES, tf.constant(LABELS), outputs)
    assert np.isfinite(loss)
    for gradient in tape.gradient(loss, outputs).values():
        assert np.isfinite(gradient).all()


@pytest.mark.parametrize("size", [1e4, -1e4])
def test_extreme_logits_stay_finite(size):
    model = s2d(student_weight=1.0)
    student = tf.constant(size * np.eye(CLASSES)[LABELS], tf.float32)
    teacher = tf.repeat(student[:, None, None], 5, axis=2)
    outputs = {"student_logits": student, "teacher_logits": teacher}
    with tf.GradientTape() as tape:
        tape.watch(outputs)
        loss = model.compute_loss(IMAGES, tf.constant(LABELS), outputs)
    assert np.isfinite(loss)
    for gradient in tape.gradient(loss, outputs).values():
        assert np.isfinite(gradient).all()


def test_sample_weight_two_is_an_example_twice():
    model = s2d(student_weight=0.5)
    outputs = model(IMAGES[:3], training=True)
    twice = {name: tf.gather(value, [0, 1, 1, 2]) for name, value in outputs.items()}
    weighted = model.compute_loss(
        None, tf.constant(LABELS[:3]), outputs, tf.constant([1.0, 2.0, 1.0])
    )
    repeated = model.compute_loss(None, tf.constant(LABELS[[0, 1, 1, 2]]), twice)
    np.testing.assert_allclose(3 * weighted, 4 * repeated, rtol=1e-5)


def test_weight_decay_reaches_every_trainable_of_a_teacher_branch():
    model = s2d(teacher="head", weight_decay=0.3)
    expected = 0.15 * sum((v.numpy() ** 2).sum() for v in model.trainable_variables)
    assert len(model.trainable_variables) == 6
    np.testing.assert_allclose(model.decay(), expected, rtol=1e-5)


def teacher_layers():
    return keras.Sequential([keras.layers.Dense(7, "relu"), keras.layers.Dense(CLASSES)])


@pytest.mark.parametrize("teacher", ["head", "layers"])
def test_teacher_branch_trains_saves_and_goes_on(tmp_path, teacher):
    model = s2d(teacher=teacher_layers() if teacher == "layers" else "head")
    before = [w.copy() for w in model.teacher.get_weights()]
    assert before, "the branch is built with the model, so that weights can be loaded at once"
    settings = {"batch_size": 6, "shuffle": False, "verbose": 0}
    model.fit(IMAGES, LABELS, **settings)
    after = model.teacher.get_weights()
    assert all(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))
    model.save(tmp_path / "model.keras")
    twin = keras.models.load_model(tmp_path / "model.keras")
    twin.run_eagerly = True
    np.testing.assert_array_equal(twin(IMAGES), model(IMAGES))
    twin.noise.seed_generator.state.assign(model.noise.seed_generator.state)
    expected = model.fit(IMAGES, LABELS, **settings).history
    assert twin.fit(IMAGES, LABELS, **settings).history == expected


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_config_round_trip(name):
    options = dict(OPTIONS[name])
    if "noise" in options:
        options["noise"] = layers.BernoulliNoise(0.3, num_samples=4, seed=0)
    model = s2d(noise_stddev=(0.1, 0.6), student_weight=0.2, weight_decay=1e-3, **options)
    twin = models.S2DClassifier.from_config(model.get_config())
    twin.compile()
    twin.set_weights(model.get_weights())
    outputs, again = model(IMAGES, training=True), twin(IMAGES, training=True)
    for key in outputs:
        np.testing.assert_array_equal(outputs[key], again[key])
    labels = tf.constant(LABELS)
    np.testing.assert_allclose(
        model.compute_loss(IMAGES, labels, outputs), twin.compute_loss(IMAGES, labels, outputs)
    )


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
