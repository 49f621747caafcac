"""Every distillation loss and its gradient against SciPy, mpmath and NumPy."""

import itertools

import keras
import mpmath
import numpy as np
import pytest
import scipy.optimize
import scipy.special
import scipy.stats
import tensorflow as tf

from s2d_tf import losses

BATCH, MEMBERS, CLASSES = 4, 3, 5


def dirichlet_kl(p, q):
    """Closed form, in 40 digits."""
    with mpmath.workdps(40):
        p, q = [mpmath.mpf(float(v)) for v in p], [mpmath.mpf(float(v)) for v in q]
        p0, q0 = mpmath.fsum(p), mpmath.fsum(q)
        value = mpmath.loggamma(p0) - mpmath.loggamma(q0)
        for a, b in zip(p, q, strict=True):
            value += mpmath.loggamma(b) - mpmath.loggamma(a)
            value += (a - b) * (mpmath.digamma(a) - mpmath.digamma(p0))
        return float(value)


def soft_cross_entropy(teacher, student, temperature=1.0):
    target = scipy.special.softmax(teacher / temperature, axis=-1).mean(axis=0)
    log_probs = scipy.special.log_softmax(student / temperature)
    return -(temperature**2) * (target * log_probs).sum()


def unscaled_cross_entropy(teacher, student, temperature):
    target = scipy.special.softmax(teacher / temperature, axis=-1).mean(axis=0)
    return -(target * scipy.special.log_softmax(student)).sum()


def forward_kl(teacher, student, temperature=1.0):
    student = np.exp(student / temperature)
    return np.mean([dirichlet_kl(np.exp(member / temperature), student) for member in teacher])


def moment_match(mean_log_probs):
    """The Dirichlet with these expected log-probabilities, by a general root finder."""

    def gap(log_concentration):
        a = np.exp(log_concentration)
        return scipy.special.psi(a) - scipy.special.psi(a.sum()) - mean_log_probs

    found = scipy.optimize.root(gap, np.zeros(len(mean_log_probs)), tol=1e-12)
    assert np.abs(gap(found.x)).max() < 1e-9
    return np.exp(found.x)


def fisher_distance(proxy, student):
    """By the whole matrix: the Hessian of ln B(a) in a, moved to log-concentrations."""
    trigamma = scipy.special.polygamma
    information = np.diag(trigamma(1, proxy)) - trigamma(1, proxy.sum())
    step = proxy * (student - np.log(proxy))
    return 0.5 * step @ information @ step / (1 + proxy.sum())


def dirichlet_fisher(teacher, student):
    a = np.exp(teacher)
    psi = scipy.special.psi
    mean_log_probs = (psi(a) - psi(a.sum(axis=-1, keepdims=True))).mean(axis=0)
    return fisher_distance(moment_match(mean_log_probs), student)


def categorical_fisher(teacher, student, temperature):
    log_probs = scipy.special.log_softmax(teacher / temperature, axis=-1)
    return fisher_distance(moment_match(log_probs.mean(axis=0)), student)


def reverse_kl(teacher, student):
    return np.mean([dirichlet_kl(np.exp(student), np.exp(member)) for member in teacher])


def dirichlet_nll(teacher, student, temperature=1.0):
    probs = scipy.special.softmax(np.float64(teacher) / temperature, axis=-1)
    return -np.mean([scipy.stats.dirichlet.logpdf(p, np.exp(student)) for p in probs])


def normal_kl(teacher, student):
    loc, log_scale = np.split(student, 2)
    proxy_loc = teacher.mean(axis=0)
    proxy_variance = ((teacher - proxy_loc) ** 2).mean(axis=0)  # appendix A.1: 1/M
    scale = np.exp(log_scale)
    return np.sum(
        np.log(scale / np.sqrt(proxy_variance))
        + (proxy_variance + (loc - proxy_loc) ** 2) / (2 * scale**2)
        - 0.5
    )


def normal_nll(teacher, student):
    loc, log_scale = np.split(student, 2)
    return -scipy.stats.norm.logpdf(teacher, loc, np.exp(log_scale)).sum(axis=-1).mean()


def centered(teacher):
    return teacher - teacher.mean(axis=-1, keepdims=True)


def mean_of(student):
    return np.split(student, 2)[0]


CASES = {
    "soft_cross_entropy": (losses.SoftCrossEntropy, {}, soft_cross_entropy),
    "soft_cross_entropy_t": (
        losses.SoftCrossEntropy,
        {"temperature": 2.5},
        lambda t, s: soft_cross_entropy(t, s, 2.5),
    ),
    "soft_cross_entropy_unscaled": (
        losses.SoftCrossEntropy,
        {"temperature": 2.5, "scale_student": False},
        lambda t, s: unscaled_cross_entropy(t, s, 2.5),
    ),
    "dirichlet_kl": (losses.DirichletKLDivergence, {}, forward_kl),
    "dirichlet_kl_t": (
        losses.DirichletKLDivergence,
        {"concentration_temperature": 4.0},
        lambda t, s: forward_kl(t, s, 4.0),
    ),
    "dirichlet_fisher": (losses.DirichletFisherDistance, {}, dirichlet_fisher),
    "dirichlet_fisher_categorical": (
        losses.DirichletFisherDistance,
        {"teacher_kind": "categorical", "temperature": 1.5},
        lambda t, s: categorical_fisher(t, s, 1.5),
    ),
    "with_soft_cross_entropy": (
        losses.WithSoftCrossEntropy,
        {"distribution": losses.DirichletKLDivergence(), "weight": 0.03, "temperature": 2.0},
        lambda t, s: soft_cross_entropy(t, s, 2.0) + 0.03 * forward_kl(t, s),
    ),
    "with_soft_cross_entropy_gaussian": (
        losses.WithSoftCrossEntropy,
        {"distribution": losses.NormalKLDivergence(), "weight": 0.2},
        lambda t, s: soft_cross_entropy(t, mean_of(s)) + 0.2 * normal_kl(t, s),
    ),
    "dirichlet_reverse_kl": (losses.DirichletKLDivergence, {"reverse": True}, reverse_kl),
    "dirichlet_nll": (losses.DirichletNegativeLogLikelihood, {}, dirichlet_nll),
    "dirichlet_nll_t": (
        losses.DirichletNegativeLogLikelihood,
        {"temperature": 1.5},
        lambda t, s: dirichlet_nll(t, s, 1.5),
    ),
    "normal_kl": (losses.NormalKLDivergence, {}, normal_kl),
    "normal_nll": (losses.NormalNegativeLogLikelihood, {}, normal_nll),
    "normal_kl_categorical": (
        losses.NormalKLDivergence,
        {"teacher_kind": "categorical"},
        lambda t, s: normal_kl(centered(t), s),
    ),
}


@pytest.fixture(params=sorted(CASES))
def case(request):
    return CASES[request.param]


def width(loss):
    return CLASSES * (2 if loss.student == "gaussian" else 1)


def data(loss, seed=0):
    rng = np.random.default_rng(seed)
    teacher = rng.normal(1.0, 1.5, [BATCH, MEMBERS, CLASSES])
    student = rng.normal(0.0, 1.0, [BATCH, width(loss)])
    return teacher.astype(np.float32), student.astype(np.float32)


def numbers(oracle, teacher, student):
    pairs = zip(np.float64(teacher), np.float64(student), strict=True)
    return np.array([oracle(t, s) for t, s in pairs])


def numerical_gradient(oracle, teacher, student, step=1e-5):
    """Central differences in float64."""
    gradient = np.zeros(student.shape)
    for index in np.ndindex(*student.shape):
        row, column = index
        ahead, behind = np.float64(student[row]), np.float64(student[row])
        ahead[column] += step
        behind[column] -= step
        member = np.float64(teacher[row])
        gradient[index] = (oracle(member, ahead) - oracle(member, behind)) / (2 * step)
    return gradient


def test_value(case):
    kind, arguments, oracle = case
    teacher, student = data(kind(**arguments))
    rows = kind(**arguments, reduction="none")(teacher, student)
    np.testing.assert_allclose(rows, numbers(oracle, teacher, student), rtol=1e-5)


def test_gradient(case):
    kind, arguments, oracle = case
    teacher, student = (array[:2] for array in data(kind(**arguments)))
    student = tf.constant(student)
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = kind(**arguments, reduction="sum")(teacher, student)
    expected = numerical_gradient(oracle, teacher, student.numpy())
    np.testing.assert_allclose(tape.gradient(value, student), expected, rtol=1e-4, atol=1e-5)


def test_graph_equals_eager(case):
    kind, arguments, _ = case
    loss = kind(**arguments)
    teacher, student = data(loss)
    np.testing.assert_allclose(tf.function(loss)(teacher, student), loss(teacher, student), 1e-6)


def test_sample_weights_and_reductions(case):
    kind, arguments, oracle = case
    teacher, student = data(kind(**arguments))
    rows = numbers(oracle, teacher, student)
    weights = np.float32([0.5, 0.0, 2.0, 1.0])
    mean, total = kind(**arguments), kind(**arguments, reduction="sum")
    np.testing.assert_allclose(mean(teacher, student), rows.mean(), rtol=1e-5)
    np.testing.assert_allclose(total(teacher, student), rows.sum(), rtol=1e-5)
    np.testing.assert_allclose(mean(teacher, student, weights), (weights * rows).mean(), rtol=1e-5)
    np.testing.assert_allclose(total(teacher, student, weights), weights @ rows, rtol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_config_round_trip_keeps_everything(case, dtype):
    kind, arguments, _ = case
    loss = kind(**arguments, reduction="sum", name="mine", dtype=dtype)
    twin = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(loss))
    assert type(twin) is kind
    assert twin.get_config() == loss.get_config()
    assert twin.dtype == dtype
    teacher, student = data(loss)
    assert twin(teacher, student).dtype == dtype
    np.testing.assert_array_equal(twin(teacher, student), loss(teacher, student))


EXTREME = {
    "large": lambda shape: np.full(shape, 1e4),
    "small": lambda shape: np.full(shape, -1e4),
    "one_hot": lambda shape: np.where(np.arange(shape[-1]) == 0, 1e4, -1e4) * np.ones(shape),
    "zero": np.zeros,
    "mixed": lambda shape: np.resize([1e4, -1e4, 0.0, 20.0, -20.0, 3.0, -7.0], shape),
}


def test_value_and_gradient_stay_finite(case):
    kind, arguments, _ = case
    pairs = list(itertools.product(EXTREME.values(), repeat=2))
    teacher = np.concatenate([t([1, MEMBERS, CLASSES]) for t, _ in pairs]).astype(np.float32)
    loss = kind(**arguments, reduction="none")
    student = tf.constant(np.concatenate([s([1, width(loss)]) for _, s in pairs]), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = loss(teacher, student)
    assert value.shape == len(pairs)
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(tape.gradient(value, student)))
    if not loss.name.endswith("likelihood"):
        assert np.all(value >= 0)


def test_one_member_of_the_student_itself_is_zero():
    _, student = data(losses.DirichletKLDivergence)
    for reverse in (False, True):
        loss = losses.DirichletKLDivergence(reverse)
        assert 0 <= float(loss(student[:, None], student)) < 1e-6
        assert float(loss(student[:, None] + 0.5, student)) > 1e-2


def test_gaussian_loss_is_zero_at_the_proxy():
    teacher, _ = data(losses.NormalKLDivergence)
    scale = np.sqrt(((teacher - teacher.mean(axis=1, keepdims=True)) ** 2).mean(axis=1))
    student = np.concatenate([teacher.mean(axis=1), np.log(scale)], axis=-1)
    assert 0 <= float(losses.NormalKLDivergence()(teacher, student)) < 1e-5


def test_one_member_gaussian_is_finite():
    teacher = np.float32([[[1.0, 2.0, 3.0]]])
    student = tf.constant([[1.0, 2.0, 3.0, -2.0, -2.0, -2.0]])
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = losses.NormalKLDivergence()(teacher, student)
    # the proxy's deviation is its floor, 1e-3: ln(e^-2 / 1e-3) + (1e-3)^2 / (2 e^-4) - 1/2 each
    expected = 3 * (-2 - np.log(1e-3) + 1e-6 / (2 * np.exp(-4)) - 0.5)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    assert np.all(np.isfinite(tape.gradient(value, student)))


def test_scale_from_log():
    log_scale = np.float32([-1e4, np.log(1e-3), -1.0, 0.0, 2.0, 1e4])
    expected = [1e-3, 1e-3, np.exp(-1), 1.0, np.exp(2), 1e3]
    np.testing.assert_allclose(losses.scale_from_log(log_scale), expected, rtol=1e-5)


@pytest.mark.parametrize("temperature", [0, -1.0, float("nan")])
@pytest.mark.parametrize("kind", [losses.SoftCrossEntropy, losses.DirichletNegativeLogLikelihood])
def test_bad_temperature_is_refused(kind, temperature):
    with pytest.raises(ValueError, match="temperature: expected a number above 0") as error:
        kind(temperature)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_does_not_reach_the_loss(case, policy):
    kind, arguments, oracle = case
    keras.config.set_dtype_policy(policy)
    teacher, student = data(kind(**arguments))
    value = kind(**arguments)(teacher, student)
    assert value.dtype == tf.float32
    np.testing.assert_allclose(value, numbers(oracle, teacher, student).mean(), rtol=1e-5)


def slopes(loss, teacher, student):
    """Gradient of the sum over the batch in the student's outputs."""
    student = tf.constant(student)
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = loss(teacher, student)
    return tape.gradient(value, student).numpy()


@pytest.mark.parametrize(
    ("kind", "oracle"),
    [(losses.NormalKLDivergence, normal_kl), (losses.NormalNegativeLogLikelihood, normal_nll)],
)
def test_a_detached_scale_learns_the_members_spread_only(kind, oracle):
    """The mean moves as in the whole divergence, the scale as if the mean were the members'."""
    detached, whole = kind(detach_scale=True, reduction="sum"), kind(reduction="sum")
    teacher, student = data(detached)
    np.testing.assert_allclose(detached(teacher, student), whole(teacher, student), rtol=1e-6)
    found, usual = slopes(detached, teacher, student), slopes(whole, teacher, student)
    np.testing.assert_allclose(found[:, :CLASSES], usual[:, :CLASSES], rtol=1e-5)
    matched = np.concatenate([teacher.mean(axis=1), student[:, CLASSES:]], axis=-1)
    expected = numerical_gradient(oracle, teacher, matched)[:, CLASSES:]
    np.testing.assert_allclose(found[:, CLASSES:], expected, rtol=1e-4, atol=1e-4)
    assert np.abs(found[:, CLASSES:] - usual[:, CLASSES:]).max() > 0.1


def test_normal_kl_knows_no_temperature_of_both():
    """Dividing all log-concentrations scales both Gaussians alike: why no loss has that option."""
    teacher, student = data(losses.NormalKLDivergence())
    shift = np.repeat([[0.0, np.log(4.0)]], CLASSES, axis=1).reshape(1, -1)
    divided = student / np.repeat([[4.0, 1.0]], CLASSES, axis=1).reshape(1, -1) - shift
    loss = losses.NormalKLDivergence()
    np.testing.assert_allclose(loss(teacher / 4, np.float32(divided)), loss(teacher, student), 1e-5)


def test_the_fisher_distance_is_the_kl_near_the_proxy():
    """To second order, less the constant of the members, and in units of the total plus 1."""
    teacher, _ = data(losses.DirichletKLDivergence())
    a = np.exp(np.float64(teacher))
    psi = scipy.special.psi
    moments = (psi(a) - psi(a.sum(axis=-1, keepdims=True))).mean(axis=1)
    proxy = np.stack([moment_match(row) for row in moments])
    step = 0.02 * np.random.default_rng(1).normal(size=proxy.shape)
    near, at = np.log(proxy) + step, np.log(proxy)
    pairs = zip(np.float64(teacher), near, at, strict=True)
    rise = np.array([forward_kl(t, s) - forward_kl(t, z) for t, s, z in pairs])
    found = losses.DirichletFisherDistance(reduction="none", dtype="float64")(teacher, near)
    np.testing.assert_allclose(found * (1 + proxy.sum(axis=-1)), rise, rtol=0.05)


def sharp_and_vague(num_images=200, num_classes=30, seed=0):
    """Members as S2D networks have them: totals from 1 to 1e6, concentrations down to 1e-8."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(size=[num_images, 1, num_classes]) * rng.uniform(1, 5, [num_images, 1, 1])
    members = logits + rng.normal(size=[num_images, 5, num_classes])
    return np.float32(np.clip(members, -18, 14))


def test_the_fisher_distance_has_a_curvature_of_at_most_one():
    """So its slope is bounded by the error in log-concentrations, whatever the teachers say."""
    teacher = sharp_and_vague()
    student = np.random.default_rng(1).normal(0, 4, [2, *teacher[:, 0].shape]).astype(np.float32)
    loss = losses.DirichletFisherDistance(reduction="sum")
    first, second = (slopes(loss, teacher, each) for each in student)
    stretch = np.linalg.norm(first - second, axis=-1)
    stretch /= np.linalg.norm(student[0] - student[1], axis=-1)
    assert stretch.max() < 1.0
    assert stretch.max() > 0.05
    kl = slopes(losses.DirichletKLDivergence(reduction="sum"), teacher, student[0])
    energy = [np.sort((rows**2).sum(axis=-1)) for rows in (kl, first)]
    shares = [rows[-2:].sum() / rows.sum() for rows in energy]
    assert shares[0] > 0.5, "two images of 200 carry most of the KL's gradient"
    assert shares[1] < 0.1


@pytest.mark.parametrize("kind", ["dirichlet", "categorical"])
def test_the_fisher_distance_vanishes_only_at_the_proxy(kind):
    teacher, _ = data(losses.DirichletFisherDistance())
    loss = losses.DirichletFisherDistance(teacher_kind=kind)
    one = teacher[:, :1] if kind == "dirichlet" else teacher  # one member is its own proxy
    a = np.exp(np.float64(one))
    psi = scipy.special.psi
    expected_logs = psi(a) - psi(a.sum(axis=-1, keepdims=True))
    if kind == "categorical":
        expected_logs = scipy.special.log_softmax(np.float64(teacher), axis=-1)
    proxy = np.log([moment_match(row.mean(axis=0)) for row in expected_logs]).astype(np.float32)
    assert 0 <= float(loss(one, proxy)) < 1e-8
    assert float(loss(one, proxy + 0.5)) > 1e-3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: losses.NormalKLDivergence("plain"), "teacher_kind: expected one of"),
        (lambda: losses.DirichletFisherDistance("plain"), "teacher_kind: expected one of"),
        (lambda: losses.DirichletFisherDistance(temperature=0), "temperature: expected above 0"),
        (
            lambda: losses.DirichletKLDivergence(concentration_temperature=-1),
            "concentration_temperature: expected above 0, received -1",
        ),
        (lambda: losses.WithSoftCrossEntropy("kl"), "distribution: expected a losses"),
        (
            lambda: losses.WithSoftCrossEntropy(losses.SoftCrossEntropy(), -1),
            "weight: expected at least 0, received -1",
        ),
    ],
)
def test_bad_options_are_rejected(make, message):
    with pytest.raises(ValueError, match=message) as error:
        make()
    assert "\n" not in str(error.value)
