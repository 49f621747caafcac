"""Digamma and its relatives in elementary operations, for positive arguments.

Neither ONNX nor LiteRT has a digamma, and TensorFlow's general polygamma is far slower than a
dedicated trigamma. These are additions, multiplications, two divisions and one logarithm, the same
in every runtime and under XLA.

An argument below the shift N is moved to x + N by the recurrence; the asymptotic series does the
rest. The N reciprocals of the recurrence pair up symmetrically: with u = x (x + N - 1),

    1/(x + i) + 1/(x + N - 1 - i) = (2 x + N - 1) / (u + c_i),    c_i = i (N - 1 - i),

so that the whole sum is a ratio of two short polynomials in u with positive coefficients: one
division, no cancellation. It is evaluated only below N, where nothing can overflow.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from s2d_tf.numerics._tensors import as_float

# Bernoulli numbers B_2, B_4, ..., B_16.
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)


def _sum_of_products(factors, numerators):
    """Coefficients of sum_i numerators[i] * prod_{j != i} factors[j], highest power first."""
    total = np.zeros(1)
    for i, numerator in enumerate(numerators):
        product = np.asarray(numerator)
        for j, factor in enumerate(factors):
            if j != i:
                product = np.polymul(product, factor)
        total = np.polyadd(total, product)
    return tuple(float(coefficient) for coefficient in total)


@dataclasses.dataclass(frozen=True)
class _Expansion:
    """Shift and coefficients for one precision; polynomials in u, highest power first."""

    shift: int
    denominator: tuple  # prod_i (u + c_i)
    reciprocals: tuple  # sum of 1/(x + i) = (2 x + N - 1) * this / denominator
    squares: tuple  # sum of 1/(x + i)^2 = this / denominator^2
    digamma_series: tuple  # in 1/y^2, highest power first, constant term last
    trigamma_series: tuple

    @classmethod
    def build(cls, shift, num_terms):
        offsets = [i * (shift - 1 - i) for i in range(shift // 2)]
        factors = [np.array([1.0, offset]) for offset in offsets]
        denominator = np.ones(1)
        for factor in factors:
            denominator = np.polymul(denominator, factor)
        # 1/(x+i)^2 + 1/(x+N-1-i)^2 = ((2x+N-1)^2 - 2(u+c)) / (u+c)^2 and (2x+N-1)^2 = 4u + (N-1)^2.
        pair_squares = [np.array([2.0, (shift - 1) ** 2 - 2.0 * offset]) for offset in offsets]
        bernoulli = _BERNOULLI[:num_terms]
        return cls(
            shift=shift,
            denominator=tuple(float(coefficient) for coefficient in denominator),
            reciprocals=_sum_of_products(factors, [np.ones(1)] * len(factors)),
            squares=_sum_of_products([np.polymul(f, f) for f in factors], pair_squares),
            digamma_series=tuple(b / (2 * k) for k, b in enumerate(bernoulli, start=1))[::-1],
            trigamma_series=bernoulli[::-1],
        )


# The first neglected terms of digamma are below 2e-9 (float32) and 4e-18 (float64). A short shift
# keeps ln y and the recurrence small, and with them the rounding of their difference.
_EXPANSIONS = {
    tf.float32: _Expansion.build(shift=4, num_terms=5),
    tf.float64: _Expansion.build(shift=10, num_terms=8),
}


def _polynomial(coefficients, x):
    value = coefficients[0] * x + coefficients[1]
    for coefficient in coefficients[2:]:
        value = value * x + coefficient
    return value


class _Shifted:
    """The pieces of one argument that `digamma` and `trigamma` share."""

    def __init__(self, x):
        self.expansion = _EXPANSIONS[x.dtype]
        shift = self.expansion.shift
        self.is_small = x < shift
        self.x = tf.minimum(x, float(shift))
        self.y = tf.where(self.is_small, x + shift, x)
        self.reciprocal = 1.0 / self.y
        self.reciprocal_squared = self.reciprocal * self.reciprocal
        self.u = self.x * (self.x + (shift - 1))
        self.denominator = _polynomial(self.expansion.denominator, self.u)

    def only_small(self, value):
        return tf.where(self.is_small, value, tf.zeros_like(value))

    def log_minus_digamma(self):
        """ln y - psi(y)."""
        series = _polynomial(self.expansion.digamma_series, self.reciprocal_squared)
        return 0.5 * self.reciprocal + self.reciprocal_squared * series

    def digamma(self):
        numerator = (2.0 * self.x + (self.expansion.shift - 1)) * _polynomial(
            self.expansion.reciprocals, self.u
        )
        recurrence = self.only_small(numerator / self.denominator)
        return (tf.math.log(self.y) - recurrence) - self.log_minus_digamma()

    def trigamma(self):
        series = _polynomial(self.expansion.trigamma_series, self.reciprocal_squared)
        series = self.reciprocal * self.reciprocal_squared * series
        squares = _polynomial(self.expansion.squares, self.u)
        recurrence = self.only_small(squares / (self.denominator * self.denominator))
        return recurrence + (self.reciprocal + (0.5 * self.reciprocal_squared + series))


def digamma(x):
    """psi(x), the derivative of ln Gamma, for x > 0; float32 or float64 is kept."""
    return _Shifted(as_float(x, "x")).digamma()


def trigamma(x):
    """psi'(x), the derivative of `digamma`, for x > 0; float32 or float64 is kept."""
    return _Shifted(as_float(x, "x")).trigamma()


def digamma_and_trigamma(x):
    """`digamma(x)` and `trigamma(x)` at less than the price of both."""
    shifted = _Shifted(as_float(x, "x"))
    return shifted.digamma(), shifted.trigamma()


def digamma_minus_log(x):
    """g(x) = psi(x + 1) - ln x for x > 0, without cancellation where x is large.

    g decreases from +infinity (like -ln x) to 0 (like 1 / (2 x)). Knowledge uncertainty of a
    Dirichlet is a mean of differences of g, which keeps its digits where the difference of two
    entropies has none left.
    """
    x = as_float(x, "x")
    expansion = _EXPANSIONS[x.dtype]
    shift = float(expansion.shift)
    small = tf.minimum(x, shift)
    small = _Shifted(small + 1.0).digamma() - tf.math.log(small)
    # psi(x + 1) = psi(x) + 1/x, so beyond the shift the logarithm cancels on paper.
    reciprocal = 1.0 / tf.maximum(x, shift)
    reciprocal_squared = reciprocal * reciprocal
    series = _polynomial(expansion.digamma_series, reciprocal_squared)
    return tf.where(x < shift, small, 0.5 * reciprocal - reciprocal_squared * series)
