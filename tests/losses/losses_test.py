"""Every distillation loss and its gradient against SciPy, mpmath and NumPy."""

import itertools

import keras
import mpmath
import numpy as np
import pytest
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


def forward_kl(teacher, student):
    return np.mean([dirichlet_kl(np.exp(member), np.exp(student)) for member in teacher])


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


CASES = {
    "soft_cross_entropy": (losses.SoftCrossEntropy, {}, soft_cross_entropy),
    "soft_cross_entropy_t": (
        losses.SoftCrossEntropy,
        {"temperature": 2.5},
        lambda t, s: soft_cross_entropy(t, s, 2.5),
    ),
    "dirichlet_kl": (losses.DirichletKLDivergence, {}, forward_kl),
    "dirichlet_reverse_kl": (losses.DirichletKLDivergence, {"reverse": True}, reverse_kl),
    "dirichlet_nll": (losses.DirichletNegativeLogLikelihood, {}, dirichlet_nll),
    "dirichlet_nll_t": (
        losses.DirichletNegativeLogLikelihood,
        {"temperature": 1.5},
        lambda t, s: dirichlet_nll(t, s, 1.5),
    ),
    "normal_kl": (losses.NormalKLDivergence, {}, normal_kl),
    "normal_nll": (losses.NormalNegativeLogLikelihood, {}, normal_nll),
}


@pytest.fixture(params=sorted(CASES))
def case(request):
    return CASES[request.param]


def width(kind):
    return CLASSES * (2 if kind.student == "gaussian" else 1)


def data(kind, seed=0):
    rng = np.random.default_rng(seed)
    teacher = rng.normal(1.0, 1.5, [BATCH, MEMBERS, CLASSES])
    student = rng.normal(0.0, 1.0, [BATCH, width(kind)])
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
    teacher, student = data(kind)
    rows = kind(**arguments, reduction="none")(teacher, student)
    np.testing.assert_allclose(rows, numbers(oracle, teacher, student), rtol=1e-5)


def test_gradient(case):
    kind, arguments, oracle = case
    teacher, student = (array[:2] for array in data(kind))
    student = tf.constant(student)
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = kind(**arguments, reduction="sum")(teacher, student)
    expected = numerical_gradient(oracle, teacher, student.numpy())
    np.testing.assert_allclose(tape.gradient(value, student), expected, rtol=1e-4, atol=1e-5)


def test_graph_equals_eager(case):
    kind, arguments, _ = case
    loss, (teacher, student) = kind(**arguments), data(kind)
    np.testing.assert_allclose(tf.function(loss)(teacher, student), loss(teacher, student), 1e-6)


def test_sample_weights_and_reductions(case):
    kind, arguments, oracle = case
    teacher, student = data(kind)
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
    teacher, student = data(kind)
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
    student = tf.constant(np.concatenate([s([1, width(kind)]) for _, s in pairs]), tf.float32)
    loss = kind(**arguments, reduction="none")
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
    with pytest.raises(ValueError, match="temperature must be above 0") as error:
        kind(temperature)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
def test_mixed_precision_does_not_reach_the_loss(case, policy):
    kind, arguments, oracle = case
    keras.config.set_dtype_policy(policy)
    teacher, student = data(kind)
    value = kind(**arguments)(teacher, student)
    assert value.dtype == tf.float32
    np.testing.assert_allclose(value, numbers(oracle, teacher, student).mean(), rtol=1e-5)
