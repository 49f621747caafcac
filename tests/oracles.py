"""Divergences, fits and distillation losses in mpmath, SciPy and NumPy."""

import mpmath
import numpy as np
import scipy.optimize
import scipy.special
import scipy.stats

psi = scipy.special.psi


def dirichlet_kl(p, q):
    """Closed form, in 40 digits."""
    with mpmath.workdps(40):
        p, q = ([mpmath.mpf(float(value)) for value in row] for row in (p, q))
        p_total, q_total = mpmath.fsum(p), mpmath.fsum(q)
        value = mpmath.loggamma(p_total) - mpmath.loggamma(q_total)
        for a, b in zip(p, q, strict=True):
            value += mpmath.loggamma(b) - mpmath.loggamma(a)
            value += (a - b) * (mpmath.digamma(a) - mpmath.digamma(p_total))
        return float(value)


def expected_log_probs(concentrations):
    return psi(concentrations) - psi(concentrations.sum(axis=-1, keepdims=True))


def moment_match(mean_log_probs):
    """The Dirichlet with these expected log-probabilities, by a general root finder."""

    def score(log_concentration):
        a = np.exp(log_concentration)
        return (expected_log_probs(a) - mean_log_probs) * a

    log_norm = scipy.special.logsumexp(mean_log_probs)
    total = (len(mean_log_probs) - 1) / 2 / -log_norm
    start = mean_log_probs - log_norm + np.log(total)
    found = scipy.optimize.root(score, start, tol=1e-13).x
    assert np.abs(score(found) / np.exp(found)).max() < 1e-9
    return np.exp(found)


def soft_cross_entropy(teacher, student, temperature=1.0, scale_student=True):
    target = scipy.special.softmax(teacher / temperature, axis=-1).mean(axis=0)
    scale = temperature if scale_student else 1.0
    return -(scale**2) * (target * scipy.special.log_softmax(student / scale)).sum()


def forward_kl(teacher, student):
    return np.mean([dirichlet_kl(np.exp(member), np.exp(student)) for member in teacher])


def reverse_kl(teacher, student):
    return np.mean([dirichlet_kl(np.exp(student), np.exp(member)) for member in teacher])


def fisher_distance(proxy, student):
    """By the whole matrix: the Hessian of ln B(a) in a, moved to log-concentrations."""
    trigamma = scipy.special.polygamma
    information = np.diag(trigamma(1, proxy)) - trigamma(1, proxy.sum())
    step = proxy * (student - np.log(proxy))
    return 0.5 * step @ information @ step / (1 + proxy.sum())


def dirichlet_fisher(teacher, student):
    mean_log_probs = expected_log_probs(np.exp(teacher)).mean(axis=0)
    return fisher_distance(moment_match(mean_log_probs), student)


def categorical_fisher(teacher, student, temperature):
    log_probs = scipy.special.log_softmax(teacher / temperature, axis=-1)
    return fisher_distance(moment_match(log_probs.mean(axis=0)), student)


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


def rows(oracle, teacher, student):
    """The oracle's value for each example."""
    pairs = zip(np.float64(teacher), np.float64(student), strict=True)
    return np.array([oracle(t, s) for t, s in pairs])


def numerical_gradient(oracle, teacher, student, step=1e-5):
    """Central differences in float64."""
    gradient = np.zeros(student.shape)
    for index in np.ndindex(*student.shape):
        ahead, behind = np.float64(student), np.float64(student)
        ahead[index] += step
        behind[index] -= step
        member, row = np.float64(teacher[index[0]]), index[0]
        gradient[index] = (oracle(member, ahead[row]) - oracle(member, behind[row])) / (2 * step)
    return gradient
