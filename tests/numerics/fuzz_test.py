"""A million random and adversarial inputs: no NaN, no infinity, nothing negative that must not be.

Inputs are logits within +-1e4, the range that the numerical contract names. Each row, with its
samples and classes, counts as one input.
"""

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf import numerics, uncertainty

ROWS, SAMPLES, CLASSES = 10_000, 4, 6
BATCHES = 25  # of each combination of precision and compiler: 4 x 25 x 10,000 rows
LIMIT = 1e4
EDGES = (0.0, 1e-38, -1e-38, 1e-7, -1e-7, 1.0, 19.999, 20.0, -20.0, 20.001, 88.7, -103.0, 709.0)
EDGES += (-745.0, LIMIT, -LIMIT)


def adversarial_logits(generator, rows=ROWS, samples=SAMPLES, classes=CLASSES):
    """Rows of eight kinds, mixed: `[rows, samples, classes]` in float64."""
    shape = (rows, samples, classes)
    scale = 10.0 ** generator.uniform(-8, 4, (rows, 1, 1))
    noise = generator.normal(size=shape)
    one_hot = np.where(
        np.arange(classes) == generator.integers(classes, size=(rows, samples, 1)), LIMIT, -LIMIT
    )
    spike = noise.copy()
    spike[:, 0] *= scale[:, 0]
    same = noise[:, :1] * scale + np.zeros(shape)
    kinds = (
        noise * scale,
        same,  # all teachers agree
        same + 1e-7 * noise,  # nearly
        one_hot,  # sure, and of different classes
        one_hot[:, :1] + np.zeros(shape),  # sure, and of the same class
        spike,  # one teacher goes its own way
        np.zeros(shape) + scale,  # uniform predictions
        generator.choice(EDGES, shape),
    )
    chosen = np.stack(kinds)[generator.integers(len(kinds), size=rows), np.arange(rows)]
    return np.clip(chosen, -LIMIT, LIMIT)


def everything(logits, other):
    """All that the library computes from logits, and the gradients that training takes."""
    results = {}
    for method in numerics.FIT_METHODS:
        log_probs = tf.nn.log_softmax(logits, axis=-1)
        results[f"fit/{method}"] = numerics.fit_dirichlet(log_probs, method=method)
    proxy = tf.stop_gradient(results["fit/newton"])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(other)
        concentration = numerics.concentrations_from_logits(other)
        losses = {
            "kl": numerics.dirichlet_kl_divergence(proxy, concentration),
            "reverse_kl": numerics.dirichlet_kl_divergence(concentration, proxy),
            "log_likelihood": numerics.dirichlet_negative_log_likelihood(
                tf.nn.log_softmax(logits, axis=-1), concentration
            ),
        }
        loc, scale = numerics.fit_normal(logits)
        own = tf.nn.softplus(tf.clip_by_value(other, -20.0, 20.0)) + numerics.MIN_SCALE
        losses["normal_kl"] = numerics.normal_kl_divergence(loc, scale, other, own)
    results |= losses
    results |= {f"gradient/{name}": tape.gradient(loss, other) for name, loss in losses.items()}
    del tape
    members = tf.transpose(logits, [1, 0, 2])
    for name, found in (
        ("dirichlet", uncertainty.from_log_concentrations(members)),
        ("categorical", uncertainty.from_log_probs(members)),
        ("one dirichlet", uncertainty.from_log_concentrations(other)),
        ("concentrations", uncertainty.from_concentrations(concentration)),
    ):
        results |= {f"{name}/{key}": value for key, value in found.items()}
    return results


NEVER_NEGATIVE = ("kl", "reverse_kl", "normal_kl")


def check(results):
    for name, value in results.items():
        value = np.asarray(value)
        assert np.isfinite(value).all(), f"{name}: {np.argwhere(~np.isfinite(value))[:3]}"
        last = name.rpartition("/")[2]
        if name in NEVER_NEGATIVE or last in ("knowledge", "total", "data", "probs"):
            assert value.min() >= 0, f"{name}: {value.min()}"
        if name.startswith("fit/"):
            assert value.min() > 0, f"{name}: {value.min()}"
        if last in ("confidence", "probs"):
            assert value.max() <= 1 + 1e-6, f"{name}: {value.max()}"


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True], ids=["graph", "xla"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_quarter_of_a_million_rows(dtype, jit_compile):
    function = tf.function(everything, jit_compile=jit_compile)
    generator = np.random.default_rng(2022)
    for _ in range(BATCHES):
        logits = adversarial_logits(generator).astype(dtype)
        other = adversarial_logits(generator, samples=1)[:, 0].astype(dtype)
        check(function(tf.constant(logits), tf.constant(other)))
