"""Every distillation loss and its gradient against SciPy, mpmath and NumPy."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import losses
from tests import contracts, oracles

BATCH, MEMBERS, CLASSES = 4, 3, 5
CASES = {
    "soft_cross_entropy": (losses.SoftCrossEntropy, {}, oracles.soft_cross_entropy),
    "soft_cross_entropy_t": (
        losses.SoftCrossEntropy,
        {"temperature": 2.5},
        lambda t, s: oracles.soft_cross_entropy(t, s, 2.5),
    ),
    "soft_cross_entropy_unscaled": (
        losses.SoftCrossEntropy,
        {"temperature": 2.5, "scale_student": False},
        lambda t, s: oracles.soft_cross_entropy(t, s, 2.5, scale_student=False),
    ),
    "dirichlet_kl": (losses.DirichletKLDivergence, {}, oracles.forward_kl),
    "dirichlet_fisher": (losses.DirichletFisherDistance, {}, oracles.dirichlet_fisher),
    "dirichlet_fisher_categorical": (
        losses.DirichletFisherDistance,
        {"teacher_kind": "categorical", "temperature": 1.5},
        lambda t, s: oracles.categorical_fisher(t, s, 1.5),
    ),
    "with_soft_cross_entropy": (
        losses.WithSoftCrossEntropy,
        {"distribution": losses.DirichletKLDivergence(), "weight": 0.03, "temperature": 2.0},
        lambda t, s: oracles.soft_cross_entropy(t, s, 2.0) + 0.03 * oracles.forward_kl(t, s),
    ),
    "with_soft_cross_entropy_gaussian": (
        losses.WithSoftCrossEntropy,
        {"distribution": losses.NormalKLDivergence(), "weight": 0.2},
        lambda t, s: oracles.soft_cross_entropy(t, s[:CLASSES]) + 0.2 * oracles.normal_kl(t, s),
    ),
    "dirichlet_reverse_kl": (losses.DirichletKLDivergence, {"reverse": True}, oracles.reverse_kl),
    "dirichlet_nll": (losses.DirichletNegativeLogLikelihood, {}, oracles.dirichlet_nll),
    "dirichlet_nll_t": (
        losses.DirichletNegativeLogLikelihood,
        {"temperature": 1.5},
        lambda t, s: oracles.dirichlet_nll(t, s, 1.5),
    ),
    "normal_kl": (losses.NormalKLDivergence, {}, oracles.normal_kl),
}


def width(loss):
    return CLASSES * (2 if loss.student == "gaussian" else 1)


def data(loss):
    rng = np.random.default_rng(0)
    teacher = rng.normal(1.0, 1.5, [BATCH, MEMBERS, CLASSES])
    student = rng.normal(0.0, 1.0, [BATCH, width(loss)])
    return teacher.astype(np.float32), student.astype(np.float32)


@pytest.fixture(params=sorted(CASES))
def case(request):
    return CASES[request.param]


def slopes(loss, teacher, student):
    """Gradient of the sum over the batch in the student's outputs."""
    student = tf.constant(student)
    with tf.GradientTape() as tape:
        tape.watch(student)
        value = loss(teacher, student)
    return tape.gradient(value, student).numpy()


def test_value_and_contract(case):
    kind, arguments, oracle = case
    teacher, student = data(kind(**arguments))
    rows = oracles.rows(oracle, teacher, student)
    contracts.run_loss_test(kind, arguments, teacher, student, rows)


def test_gradient(case):
    kind, arguments, oracle = case
    teacher, student = (array[:2] for array in data(kind(**arguments)))
    found = slopes(kind(**arguments, reduction="sum"), teacher, student)
    expected = oracles.numerical_gradient(oracle, teacher, student)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


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
    student = np.concatenate([s([1, width(loss)]) for _, s in pairs]).astype(np.float32)
    value = loss(teacher, student)
    assert value.shape == len(pairs)
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(slopes(loss, teacher, student)))
    if not loss.name.endswith("likelihood"):
        assert np.all(value >= 0)


def test_scale_from_log():
    log_scale = np.float32([-1e4, np.log(1e-3), -1.0, 0.0, 2.0, 1e4])
    expected = [1e-3, 1e-3, np.exp(-1), 1.0, np.exp(2), 1e3]
    np.testing.assert_allclose(losses.scale_from_log(log_scale), expected, rtol=1e-5)


def test_the_fisher_distance_is_the_kl_near_the_proxy():
    """To second order, less the constant of the members, and in units of the total plus 1."""
    teacher, _ = data(losses.DirichletKLDivergence())
    moments = oracles.expected_log_probs(np.exp(np.float64(teacher))).mean(axis=1)
    proxy = np.stack([oracles.moment_match(row) for row in moments])
    step = 0.02 * np.random.default_rng(1).normal(size=proxy.shape)
    near, at = np.log(proxy) + step, np.log(proxy)
    rise = np.subtract(*(oracles.rows(oracles.forward_kl, teacher, each) for each in (near, at)))
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


BAD_OPTIONS = [
    (losses.SoftCrossEntropy, {"temperature": 0}, "temperature: expected a number above 0"),
    (losses.SoftCrossEntropy, {"temperature": float("nan")}, "a number above 0, received nan"),
    (losses.DirichletFisherDistance, {"teacher_kind": "plain"}, "teacher_kind: expected one of"),
    (losses.WithSoftCrossEntropy, {"distribution": "kl"}, "distribution: expected a losses"),
    (
        losses.WithSoftCrossEntropy,
        {"distribution": losses.SoftCrossEntropy(), "weight": -1},
        "weight: expected at least 0, received -1",
    ),
]


@pytest.mark.parametrize(("kind", "options", "message"), BAD_OPTIONS)
def test_bad_options_are_rejected(kind, options, message):
    with pytest.raises(ValueError, match=message):
        kind(**options)
