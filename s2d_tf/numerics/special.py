"""Digamma and its relatives in elementary operations, for positive arguments.

Neither ONNX nor LiteRT has a digamma, and TensorFlow's general polygamma is far slower than a
dedicated trigamma. These are additions, multiplications, divisions and a logarithm, the same in
every runtime and under XLA.

The recurrence psi(x) = psi(x + N) - 1/x - ... - 1/(x + N - 1) leads away from zero. What remains is
taken half a step back, at z = x + N - 1/2, because around there only even powers occur:

    psi(z + 1/2)  = ln z + s R(s),        s = 1/z^2, below 1 / (N - 1/2)^2,
    psi'(z + 1/2) = (1 + s Q(s)) / z.

R and Q are smooth down to s = 0, where their Taylor series are the asymptotic ones, which diverge.
Polynomials that interpolate them at Chebyshev nodes over the whole range of s do not, and so reach
from a short shift what no number of terms of the series would.
"""

from __future__ import annotations

import dataclasses
import functools
import operator

import tensorflow as tf

from s2d_tf._types import TensorLike
from s2d_tf.numerics.tensor_checks import as_float


@dataclasses.dataclass(frozen=True)
class _Expansion:
    """Shift and coefficients for one precision, highest power first."""

    shift: int  # N
    digamma: tuple  # R, in s
    trigamma: tuple  # Q, in s
    artanh: tuple  # artanh(q) / q, in q^2, for q up to 1 / (4 N + 1)


def _artanh_terms(count):
    return tuple(1.0 / (2 * k + 1) for k in reversed(range(count)))


# The errors of s R and s Q are largest where s is, which is where
# 1/x outweighs them: below 3e-9 and 3e-8 (float32), 2e-17 and 3e-16 (float64).
_EXPANSIONS = {
    tf.float32: _Expansion(
        shift=3,
        digamma=(
            *(-0.002596533729004902, 0.0037117388461652186),
            *(-0.007287667419718934, 0.04166664688955681),
        ),
        trigamma=(
            *(0.018779293664477528, -0.021866375472915516),
            *(0.029130862645725532, -0.08333315664094271),
        ),
        artanh=_artanh_terms(4),
    ),
    tf.float64: _Expansion(
        shift=4,
        digamma=(
            *(-1.70857735684735, 0.9968317191069842, -0.30794505830660523, 0.0769688638390977),
            *(-0.02088157798701345, 0.007556908185468272, -0.004134066250038124),
            *(0.0038442457332123854, -0.007291666665940503, 0.04166666666666637),
        ),
        trigamma=(
            *(27.564050059039655, -15.634477456347247, 4.5919130289820425, -1.051388377429451),
            *(0.24939126568638287, -0.07553753202521785, 0.03307206091246131),
            *(-0.02306547091918264, 0.029166666653862774, -0.08333333333332812),
        ),
        artanh=_artanh_terms(7),
    ),
}


def _polynomial(coefficients, x):
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


def _sum(terms):
    return functools.reduce(operator.add, terms)


class _Shifted:
    """The pieces of one argument that `digamma` and `trigamma` share."""

    def __init__(self, x: tf.Tensor) -> None:
        self.expansion = _EXPANSIONS[x.dtype]
        shift = self.expansion.shift
        self.recurrence = [1.0 / (x + float(i)) for i in range(shift - 1, 0, -1)] + [1.0 / x]
        self.z = x + (shift - 0.5)
        self.reciprocal = 1.0 / self.z
        self.s = self.reciprocal * self.reciprocal

    def digamma(self):
        beyond_log = self.s * _polynomial(self.expansion.digamma, self.s)
        return (tf.math.log(self.z) - _sum(self.recurrence)) + beyond_log

    def trigamma(self):
        beyond_reciprocal = self.reciprocal * self.s * _polynomial(self.expansion.trigamma, self.s)
        squares = [reciprocal * reciprocal for reciprocal in self.recurrence]
        return (_sum(squares) + beyond_reciprocal) + self.reciprocal


def digamma(x: TensorLike) -> tf.Tensor:
    """psi(x), the derivative of ln Gamma, for x > 0; float32 or float64 is kept.

    Example:

    >>> round(float(numerics.digamma(1.0)), 4)
    -0.5772
    """
    return _Shifted(as_float(x, "x")).digamma()


def trigamma(x: TensorLike) -> tf.Tensor:
    """psi'(x), the derivative of `digamma`, for x > 0; float32 or float64 is kept.

    Example:

    >>> round(float(numerics.trigamma(1.0)), 4)
    1.6449
    """
    return _Shifted(as_float(x, "x")).trigamma()


def digamma_and_trigamma(x: TensorLike) -> tuple[tf.Tensor, tf.Tensor]:
    """`digamma(x)` and `trigamma(x)` at less than the price of both.

    Example:

    >>> first, second = numerics.digamma_and_trigamma([0.5, 1.0, 10.0])
    >>> first.shape, second.shape
    (TensorShape([3]), TensorShape([3]))
    """
    shifted = _Shifted(as_float(x, "x"))
    return shifted.digamma(), shifted.trigamma()


def digamma_minus_log(x: TensorLike) -> tf.Tensor:
    """g(x) = psi(x + 1) - ln x for x > 0, without cancellation where x is large.

    g decreases from +infinity (like -ln x) to 0 (like 1 / (2 x)). Knowledge uncertainty of a
    Dirichlet is a mean of differences of g, which keeps its digits where the difference of two
    entropies has none left.

    Example:

    >>> round(float(numerics.digamma_minus_log(1e6)) * 2e6, 4)
    1.0
    """
    x = as_float(x, "x")
    expansion = _EXPANSIONS[x.dtype]
    shift = float(expansion.shift)
    small = tf.minimum(x, shift)
    small = _Shifted(small + 1.0).digamma() - tf.math.log(small)
    # Beyond the shift no recurrence is needed: z = x + 1/2, and ln(z/x) = 2 artanh(1 / (4 x + 1)).
    large = tf.maximum(x, shift)
    reciprocal = 1.0 / (large + 0.5)
    s = reciprocal * reciprocal
    q = 1.0 / (4.0 * large + 1.0)
    log_ratio = 2.0 * q * _polynomial(expansion.artanh, q * q)
    return tf.where(x < shift, small, log_ratio + s * _polynomial(expansion.digamma, s))
