"""Digamma and trigamma in elementary operations against TensorFlow's: time and error."""

import importlib.util

import numpy as np

from benchmarks import networks
from benchmarks.records import Case, Goal, counted, not_run

SPEED_GOAL = Goal(3, at_most=False)


def cases(plan):
    for dtype in ("float32", "float64"):
        yield _speed(dtype, 64 if plan.quick else 100_000)
        yield from _errors(dtype, 20 if plan.quick else 2000)


def _arguments(count, dtype):
    return np.exp(np.linspace(np.log(1e-3), np.log(1e6), count)).astype(dtype)


def _speed(dtype, count):
    def build():
        import tensorflow as tf

        from s2d_tf import numerics

        x = tf.constant(_arguments(count, dtype))
        stock = tf.function(lambda x: (tf.math.digamma(x), tf.math.polygamma(tf.ones_like(x), x)))
        return {
            "stock": networks.waiting(stock, x),
            "ours": networks.waiting(tf.function(numerics.digamma_and_trigamma), x),
            "ours, XLA": networks.waiting(
                tf.function(numerics.digamma_and_trigamma, jit_compile=True), x
            ),
        }

    return Case(
        f"tf.math.digamma + polygamma / ours fused, {dtype}",
        build,
        lambda t: t["stock"] / t["ours"],
        f"time of the two stock functions / time of ours, {count:,} values in [1e-3, 1e6]",
        SPEED_GOAL,
        facts=lambda s: {"stock / ours with XLA": s["stock"] / s["ours, XLA"]},
    )


def _errors(dtype, count):
    import tensorflow as tf

    from s2d_tf import numerics

    x = _arguments(count, dtype)
    names = ("digamma", "trigamma")
    rows = [f"largest error of ours / of tf.math, {name}, {dtype}" for name in names]
    formula = "relative error, absolute where digamma is below 1; mpmath is the judge"
    if importlib.util.find_spec("mpmath") is None:
        yield from (not_run(row, formula, "`mpmath` is not installed") for row in rows)
        return
    ours = numerics.digamma_and_trigamma(tf.constant(x))
    stock = tf.math.digamma(x), tf.math.polygamma(np.ones_like(x), x)
    for order, row in enumerate(rows):
        errors = [_error(values[order].numpy(), order, x) for values in (ours, stock)]
        yield counted(
            row,
            formula,
            errors[0] / errors[1],
            unit="x",
            goal=Goal(1.0),
            facts={"error of ours": errors[0], "error of tf.math": errors[1], "values": count},
        )


def _error(values, order, x):
    """Largest error of digamma (order 0) or trigamma (1), never below half a last place."""
    import mpmath

    with mpmath.workdps(30):
        found = [
            abs(mpmath.mpf(float(value)) - mpmath.psi(order, mpmath.mpf(float(argument))))
            # Digamma has a zero at 1.46, near which no relative error means anything.
            / max(abs(float(value)), 1.0 if order == 0 else 0.0)
            for value, argument in zip(values, x, strict=True)
        ]
    return max(float(max(found)), float(np.finfo(x.dtype).eps) / 2)
