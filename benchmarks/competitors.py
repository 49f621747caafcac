"""Other ways to fit a Dirichlet, one at a time or in a batch, and an independent judge."""

import importlib.util
import warnings

import numpy as np

# Enough for every row that converges at all; it only bounds the time of one that does not.
MAX_ITERATIONS = 2000


def teacher_predictions(batch, num_samples, num_classes):
    """float64 log-probabilities `[batch, samples, classes]`, alike within a row as teachers are."""
    generator = np.random.default_rng(num_classes)
    centre = 2.0 * generator.standard_normal((batch, 1, num_classes))
    scatter = generator.uniform(0.1, 0.6, (batch, 1, 1))
    logits = centre + scatter * generator.standard_normal((batch, num_samples, num_classes))
    largest = logits.max(axis=-1, keepdims=True)
    return logits - largest - np.log(np.exp(logits - largest).sum(axis=-1, keepdims=True))


def error(concentrations, log_probs):
    """Largest violation of psi(a_k) - psi(a_0) = mean ln p_k over all rows and classes."""
    from scipy import special

    concentrations = np.asarray(concentrations, dtype=np.float64)
    total = concentrations.sum(axis=-1, keepdims=True)
    found = special.digamma(concentrations) - special.digamma(total)
    return float(np.abs(found - log_probs.mean(axis=-2)).max())


def has_dirichlet_package():
    return importlib.util.find_spec("dirichlet") is not None


def dirichlet_package(log_probs):
    """The PyPI package `dirichlet`, row by row."""
    import dirichlet

    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for row in np.exp(log_probs):
            found.append(dirichlet.mle(row, method="meanprecision", maxiter=MAX_ITERATIONS))
    return np.stack(found)


def scipy_lbfgs(log_probs):
    """`scipy.optimize.minimize` (L-BFGS-B with gradient) over log-concentrations, row by row."""
    from scipy import optimize, special

    def fit(mean_log_probs):
        def objective(log_concentration):
            concentration = np.exp(log_concentration)
            total = concentration.sum()
            value = (
                special.gammaln(concentration).sum()
                - special.gammaln(total)
                - ((concentration - 1.0) * mean_log_probs).sum()
            )
            slope = special.digamma(concentration) - special.digamma(total) - mean_log_probs
            return value, slope * concentration

        options = {"maxiter": MAX_ITERATIONS, "ftol": 1e-15, "gtol": 1e-7}
        start = np.zeros_like(mean_log_probs)
        answer = optimize.minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
        return np.exp(answer.x)

    return np.stack([fit(row) for row in log_probs.mean(axis=-2)])


def tfp_lbfgs(log_probs):
    """`tfp.optimizer.lbfgs_minimize` over log-concentrations, all rows in one compiled graph."""
    import tensorflow as tf
    import tensorflow_probability as tfp

    mean_log_probs = tf.constant(log_probs.mean(axis=-2))

    def objective(log_concentration):
        concentration = tf.exp(log_concentration)
        total = tf.reduce_sum(concentration, axis=-1)
        return (
            tf.reduce_sum(tf.math.lgamma(concentration), axis=-1)
            - tf.math.lgamma(total)
            - tf.reduce_sum((concentration - 1.0) * mean_log_probs, axis=-1)
        )

    @tf.function
    def fit():
        answer = tfp.optimizer.lbfgs_minimize(
            lambda x: tfp.math.value_and_gradient(objective, x),
            tf.zeros_like(mean_log_probs),
            tolerance=1e-6,
            max_iterations=200,
        )
        return tf.exp(answer.position)

    return lambda: fit().numpy()
