"""Optimizers that Keras does not have.

Muon for convolution kernels (Jordan et al., 2024), Nesterov SGD for everything else.
"""

from __future__ import annotations

from typing import Any

import s2d_tf._backend  # noqa: F401

# isort: split
import keras
import tensorflow as tf

from s2d_tf.numerics.tensor_checks import require

# Coefficients of the quintic Newton-Schulz iteration, by Jordan et al.: its singular values come
# near 1 (0.7 to 1.2) quickly rather than exactly.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)

_EPSILON = 1e-7


@keras.saving.register_keras_serializable(package="s2d_tf")
class Muon(keras.optimizers.SGD):
    """Updates convolution kernels by their orthogonalized momentum.

    A kernel is seen as a matrix with one column for each filter. Each step moves it by the
    momentum with all singular values near 1, and keeps its norm at the square root of its filters.
    All other variables follow SGD with Nesterov momentum. (`keras.optimizers.Muon` takes 2-D
    variables only and leaves convolutions to AdamW.)

    Args:
        learning_rate: rate of the convolution kernels; a float or a schedule.
        momentum: momentum of the convolution kernels.
        num_iterations: Newton-Schulz steps.
        sgd_ratio: rate of all other variables over `learning_rate`.
        sgd_momentum: momentum of all other variables.
        **kwargs: other arguments of `keras.optimizers.SGD`.

    Example:

    >>> layer = keras.layers.Conv2D(4, 3)
    >>> layer.build([None, 8, 8, 3])
    >>> optimizer = optimizers.Muon(learning_rate=0.1)
    >>> optimizer.apply([tf.ones_like(v) for v in layer.variables], layer.variables)
    >>> tuple(layer.kernel.shape)
    (3, 3, 3, 4)
    """

    momentums: list[keras.Variable]

    def __init__(
        self,
        learning_rate: float | keras.optimizers.schedules.LearningRateSchedule = 0.12,
        momentum: float = 0.6,
        num_iterations: int = 3,
        sgd_ratio: float = 6.0,
        sgd_momentum: float = 0.85,
        name: str = "muon",
        **kwargs: Any,
    ) -> None:
        kwargs = {key: kwargs[key] for key in kwargs if key != "nesterov"}
        super().__init__(learning_rate, momentum=sgd_momentum, nesterov=True, name=name, **kwargs)
        require(
            0 <= momentum < 1,
            f"momentum: expected a number in [0, 1), received {momentum!r}. The default is 0.6.",
        )
        require(
            num_iterations >= 1,
            f"num_iterations: expected at least 1, received {num_iterations!r}. The default is 3.",
        )
        require(
            sgd_ratio > 0,
            f"sgd_ratio: expected a number above 0, received {sgd_ratio!r}. The default is 6.",
        )
        self.kernel_momentum = momentum
        self.num_iterations = num_iterations
        self.sgd_ratio = sgd_ratio

    def build(self, variables: list[keras.Variable]) -> None:
        super().build(variables)
        if not self.momentums:  # SGD without momentum has none, but kernels need theirs.
            self.momentums = self.add_optimizer_variables(variables, "momentum")

    def update_step(
        self, gradient: tf.Tensor, variable: keras.Variable, learning_rate: tf.Tensor
    ) -> None:
        if len(variable.shape) != 4:
            super().update_step(gradient, variable, self.sgd_ratio * learning_rate)
            return
        rate = tf.cast(learning_rate, variable.dtype)
        velocity = self.momentums[self._get_variable_index(variable)]
        self.assign(velocity, self.kernel_momentum * velocity + gradient)
        update = gradient + self.kernel_momentum * velocity
        filters = variable.shape[-1]
        direction = orthogonalize(tf.reshape(update, [-1, filters]), self.num_iterations)
        kernel = tf.convert_to_tensor(variable)
        kernel *= filters**0.5 / (tf.norm(kernel) + _EPSILON)
        self.assign(variable, kernel - rate * tf.reshape(direction, variable.shape))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["nesterov"]
        return {
            **config,
            "momentum": self.kernel_momentum,
            "num_iterations": self.num_iterations,
            "sgd_ratio": self.sgd_ratio,
            "sgd_momentum": self.momentum,
        }


def orthogonalize(matrix: tf.Tensor, num_iterations: int = 3) -> tf.Tensor:
    """The matrix with its singular values moved near 1, by Newton-Schulz iterations.

    An iteration is X <- (a I + b A + c A^2) X with A = X X^T. All factors are polynomials of the
    first A and commute, so the iterations run on the small square A alone, and X is multiplied
    once at the end.

    Args:
        matrix: `[rows, columns]`.
        num_iterations: Newton-Schulz steps.

    Returns:
        `[rows, columns]`.

    Example:

    >>> values = tf.linalg.svd(optimizers.orthogonalize(tf.random.normal([4, 6]), 10))[0]
    >>> bool(tf.reduce_all((values > 0.6) & (values < 1.3)))
    True
    """
    a, b, c = NEWTON_SCHULZ
    tall = matrix.shape[0] > matrix.shape[1]
    matrix = matrix / (tf.norm(matrix) + _EPSILON)
    gram = tf.matmul(matrix, matrix, transpose_a=tall, transpose_b=not tall)
    identity = tf.eye(gram.shape[0], dtype=gram.dtype)
    product = None
    for iteration in range(num_iterations):
        factor = a * identity + b * gram + c * gram @ gram
        product = factor if product is None else factor @ product
        if iteration + 1 < num_iterations:
            gram = factor @ gram @ factor
    return matrix @ product if tall else product @ matrix
