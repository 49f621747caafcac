"""Muon against NumPy, over replicas, and through a checkpoint."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.optimizers import NEWTON_SCHULZ, Muon, orthogonalize
from tests import contracts

RNG = np.random.default_rng(0)


def numpy_orthogonalize(matrix, num_iterations):
    """The iteration as it is published: on the matrix itself, not on its Gram matrix."""
    a, b, c = NEWTON_SCHULZ
    x = matrix.T if matrix.shape[0] > matrix.shape[1] else matrix
    x = x / (np.linalg.norm(x) + 1e-7)
    for _ in range(num_iterations):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if matrix.shape[0] > matrix.shape[1] else x


@pytest.mark.parametrize("shape", [(12, 5), (5, 12), (8, 8), (27, 4), (1, 6)])
@pytest.mark.parametrize("num_iterations", [1, 3, 5])
def test_orthogonalize_is_the_plain_iteration(shape, num_iterations):
    matrix = RNG.normal(size=shape)
    received = orthogonalize(tf.constant(matrix, tf.float32), num_iterations)
    expected = numpy_orthogonalize(matrix, num_iterations)
    np.testing.assert_allclose(received, expected, rtol=1e-3, atol=1e-4)


class NumpyMuon:
    """Steps of the whole optimizer in float64."""

    def __init__(self, values, momentum, num_iterations, sgd_ratio, sgd_momentum):
        self.values = [value.astype("float64") for value in values]
        self.velocities = [np.zeros_like(value) for value in self.values]
        self.momentum, self.num_iterations = momentum, num_iterations
        self.sgd_ratio, self.sgd_momentum = sgd_ratio, sgd_momentum

    def step(self, gradients, rate):
        for index, gradient in enumerate(gradients):
            value, velocity = self.values[index], self.velocities[index]
            if value.ndim == 4:
                velocity = self.momentum * velocity + gradient
                nesterov = gradient + self.momentum * velocity
                filters = value.shape[-1]
                direction = numpy_orthogonalize(nesterov.reshape(-1, filters), self.num_iterations)
                value = value * np.sqrt(filters) / np.linalg.norm(value)
                value = value - rate * direction.reshape(value.shape)
            else:
                velocity = self.sgd_momentum * velocity - self.sgd_ratio * rate * gradient
                value = value + self.sgd_momentum * velocity - self.sgd_ratio * rate * gradient
            self.values[index], self.velocities[index] = value, velocity


@pytest.mark.parametrize(("compiled", "sgd_momentum"), [(False, 0.85), (True, 0.85), (True, 0.0)])
def test_several_steps_equal_numpy(compiled, sgd_momentum):
    shapes = [(3, 3, 4, 6), (1, 1, 8, 2), (6,), (5, 3)]
    values = [RNG.normal(size=shape).astype("float32") for shape in shapes]
    variables = [keras.Variable(value) for value in values]
    numbers = {"momentum": 0.6, "num_iterations": 3, "sgd_ratio": 4.0}
    numbers["sgd_momentum"] = sgd_momentum
    schedule = keras.optimizers.schedules.PolynomialDecay(0.1, 10, 0.0)
    ours, oracle = Muon(schedule, **numbers), NumpyMuon(values, **numbers)
    ours.build(variables)
    apply = tf.function(ours.apply) if compiled else ours.apply
    for step in range(5):
        gradients = [RNG.normal(size=shape) for shape in shapes]
        apply([tf.constant(gradient, tf.float32) for gradient in gradients])
        oracle.step(gradients, 0.1 * (1 - step / 10))
        for variable, expected in zip(variables, oracle.values, strict=True):
            np.testing.assert_allclose(variable.numpy(), expected, rtol=2e-3, atol=2e-4)
    assert int(ours.iterations.numpy()) == 5


def test_config_round_trip():
    optimizer = Muon(0.2, 0.5, 4, 3.0, 0.7, weight_decay=1e-3, clipnorm=1.0)
    found = contracts.run_serialization_test(optimizer).get_config()
    names = ("momentum", "num_iterations", "sgd_ratio", "sgd_momentum", "weight_decay", "clipnorm")
    assert [found[name] for name in names] == [0.5, 4, 3.0, 0.7, 1e-3, 1.0]


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"momentum": 1.0}, r"momentum: expected a number in \[0, 1\), received 1\.0\."),
        ({"num_iterations": 0}, r"num_iterations: expected at least 1, received 0\."),
        ({"sgd_ratio": 0}, r"sgd_ratio: expected a number above 0, received 0\."),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        Muon(**kwargs)


def _model():
    images = keras.Input((6, 6, 2))
    start = keras.initializers.HeNormal(0)
    x = keras.layers.Conv2D(4, 3, activation="relu", kernel_initializer=start)(images)
    x = keras.layers.Conv2D(6, 2, activation="relu", kernel_initializer=start)(x)
    x = keras.layers.Dense(3, kernel_initializer=start)(keras.layers.Flatten()(x))
    model = keras.Model(images, x)
    model.compile(Muon(0.05), "mse")
    return model


def _data():
    rng = np.random.default_rng(1)
    images = rng.normal(size=(32, 6, 6, 2)).astype("float32")
    return tf.data.Dataset.from_tensor_slices((images, images[:, :3, 0, 0])).batch(8)


def test_two_replicas_equal_one(two_replicas):
    results = []
    for strategy in (tf.distribute.get_strategy(), two_replicas):
        with strategy.scope():
            model = _model()
        history = model.fit(_data(), epochs=2, verbose=0, shuffle=False).history["loss"]
        results.append((history, model.get_weights()))
    (losses, weights), (other_losses, other_weights) = results
    assert losses[1] < losses[0]
    np.testing.assert_allclose(other_losses, losses, rtol=1e-4)
    contracts.assert_same(other_weights, weights, rtol=1e-3, atol=1e-4)


def test_a_restored_optimizer_continues_in_the_same_bits():
    whole, first, second = _model(), _model(), _model()

    def state(model):
        model.optimizer.build(model.trainable_variables)
        return [*model.variables, *model.optimizer.variables]

    whole.fit(_data().repeat(2), verbose=0, shuffle=False)
    first.fit(_data(), verbose=0, shuffle=False)
    for held, restored in zip(state(first), state(second), strict=True):
        restored.assign(held)
    second.fit(_data(), verbose=0, shuffle=False)
    contracts.assert_same(state(second), state(whole))
