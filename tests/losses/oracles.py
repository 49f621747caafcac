"""The distillation losses in SciPy, mpmath and NumPy, and inputs to compare them on."""

import mpmath
import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

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


def forward_kl(teacher, student):
    return np.mean([dirichlet_kl(np.exp(member), np.exp(student)) for member in teacher])


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
}


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
