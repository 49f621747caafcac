"""Calibration: temperature, vector and Dirichlet scaling of the mean; the distance in the total."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf.models import Predictor
from s2d_tf.models.contract import require
from s2d_tf.posthoc.prediction_scores import log_sum_exp
from s2d_tf.posthoc.predictor import State
from s2d_tf.posthoc.step import (
    FitData,
    Step,
    check_every_class,
    check_num_examples,
    check_score,
    finite,
    positive,
)

OFF_DIAGONAL_PENALTY = 1.0
BIAS_PENALTY = 0.01
MAX_LOG_TEMPERATURE = 5.0
"""Searched for a stack of members: temperatures from exp(-5) to exp(5)."""
MAX_NATS = 40.0
"""The most that the distance moves a log-concentration; more would cost the mean digits."""
MIN_DEVIATION = 1e-6
"""Below it values are equal up to rounding."""


class Calibration(Step):
    """Base of the steps that change the mean prediction.

    Of a Dirichlet prediction the mean is calibrated and the total concentration stays, so that
    knowledge uncertainty changes only as far as the mean does. Several members are scaled alike,
    by what makes their average most likely.
    """

    changes_members = True
    held_out = True

    def __init__(self) -> None:
        super().__init__()

    def estimate(self, data: FitData) -> dict[str, np.ndarray]:
        from scipy import special

        logits, labels = data.gather(
            lambda state, labels: (tf.transpose(state.member_logits, [1, 0, 2]), labels)
        )
        self.check_labels(np.bincount(labels, minlength=logits.shape[-1]))
        members = finite(logits, "logits").swapaxes(0, 1).astype(np.float64)
        return self.estimate_scaling(special.log_softmax(members, axis=-1), labels)

    def check_labels(self, counts: np.ndarray) -> None:
        check_num_examples(counts.sum(), len(counts))
        check_every_class(counts)

    def estimate_scaling(self, log_probs: np.ndarray, labels: np.ndarray) -> dict:
        """`{"kernel", "bias"}` that make the labels most likely."""
        raise NotImplementedError

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        # Means are `softmax(log_probs @ kernel + bias)`; a kernel of rank 1 is a diagonal.
        log_probs, kernel = tf.nn.log_softmax(state.member_logits, axis=-1), fitted["kernel"]
        if kernel.shape.rank == 2:
            rows = tf.matmul(tf.reshape(log_probs, [-1, log_probs.shape[-1]]), kernel)
            scaled = tf.reshape(rows, tf.shape(log_probs))
        else:
            scaled = log_probs * kernel
        state.set_means(scaled + fitted["bias"])


class TemperatureScaling(Calibration):
    """One temperature for all logits (Guo et al., 2017).

    Example:

    >>> model = posthoc.TemperatureScaling().fit(model, (images, labels))
    >>> temperature = 1.0 / model.arrays["kernel"]
    >>> model.predict_uncertainty(images)["probs"].shape
    (40, 3)
    """

    title = "Temperature scaling"

    def check_labels(self, counts: np.ndarray) -> None:
        check_num_examples(counts.sum(), 2)

    def estimate_scaling(self, log_probs: np.ndarray, labels: np.ndarray) -> dict:
        from s2d_tf import metrics

        if len(log_probs) == 1:
            temperature = metrics.fit_temperature(log_probs[0], labels)
        else:
            temperature = _fit_member_temperature(log_probs, labels)
        return {"kernel": 1.0 / temperature, "bias": 0.0}


class VectorScaling(Calibration):
    """A factor and an offset for each class (Guo et al., 2017).

    Example:

    >>> model = posthoc.VectorScaling().fit(model, (images, labels))
    >>> model.arrays["kernel"].shape
    (3,)
    """

    title = "Vector scaling"

    def estimate_scaling(self, log_probs: np.ndarray, labels: np.ndarray) -> dict:
        identity = np.ones(log_probs.shape[-1])
        return minimize(identity, log_probs, labels, lambda kernel, bias: (0.0, 0.0, 0.0))


class DirichletCalibration(Calibration):
    """A full linear map of log-probabilities, with off-diagonal regularization (Kull et al., 2019).

    For few classes and many examples: with the 100 classes of CIFAR-100 and 4,000 examples, one
    temperature gave a better likelihood of other examples for both networks that were tried, and
    penalties below 1 a worse one than vector scaling.

    Args:
        off_diagonal_penalty: weight of the sum of squares of the off-diagonal entries. (The paper
            writes the mean of the squares, whose weight has to grow with the number of classes.)
        bias_penalty: weight of the sum of squares of the offsets.

    Example:

    >>> model = posthoc.DirichletCalibration().fit(model, (images, labels))
    >>> model.arrays["kernel"].shape
    (3, 3)
    """

    title = "Dirichlet calibration"

    def __init__(
        self,
        off_diagonal_penalty: float = OFF_DIAGONAL_PENALTY,
        bias_penalty: float = BIAS_PENALTY,
    ) -> None:
        super().__init__()
        self.off_diagonal_penalty = positive(off_diagonal_penalty, "off_diagonal_penalty")
        self.bias_penalty = positive(bias_penalty, "bias_penalty")

    def estimate_scaling(self, log_probs: np.ndarray, labels: np.ndarray) -> dict:
        identity = np.eye(log_probs.shape[-1])

        def penalty(kernel, bias):
            off_diagonal = kernel * (1.0 - identity)
            weights = self.off_diagonal_penalty, self.bias_penalty
            value = weights[0] * np.sum(off_diagonal**2) + weights[1] * np.sum(bias**2)
            return value, 2.0 * weights[0] * off_diagonal, 2.0 * weights[1] * bias

        return minimize(identity, log_probs, labels, penalty)


class DistanceAwareness(Step):
    """Lowers the total concentration with the distance to the training data.

    The mean prediction stays, and so do accuracy, NLL and calibration; knowledge uncertainty rises
    far away from what the network was trained on. Fit a detector that measures distance first, such
    as `KNN` on training examples, then this step on held-out ones. A categorical network gets a
    Dirichlet, whose log-concentrations are its logits.

    No out-of-distribution data sets the strength. Held-out examples show how far known inputs are
    and how much the log of the network's total concentration varies among them, each by a standard
    deviation. Up to one deviation beyond the mean distance nothing changes: there the network's own
    opinion counts. Each further deviation of the distance takes one deviation of the log total, so
    that being far away weighs as much as the network's opinion.

    Args:
        score: key of the distance: a detector's name.
        strength: deviations of the log total concentration for each deviation of the distance.

    Example:

    >>> near = posthoc.KNN(k=1, max_examples=2000).fit(model, (images, labels))
    >>> aware = posthoc.DistanceAwareness().fit(near, (images, labels))
    >>> aware.kind, aware.predict_uncertainty(images)["knowledge"].shape
    ('dirichlet', (40,))
    """

    title = "Distance awareness"
    changes_members = True
    makes = "dirichlet"
    held_out = True

    def __init__(self, score: str = "knn", strength: float = 1.0) -> None:
        super().__init__()
        self.score = score
        self.strength = positive(strength, "strength")

    def check(self, model: Predictor) -> None:
        super().check(model)
        check_score(self.score, model)

    def estimate(self, data: FitData) -> dict[str, Any]:
        found = [(s.values()[self.score], log_sum_exp(s.member_logits)) for s, _ in data.states()]
        scores = finite(np.concatenate([each for each, _ in found]), "scores").astype(np.float64)
        log_totals = np.concatenate([tf.reduce_mean(each, axis=0) for _, each in found])
        scale, spread = scores.std(), log_totals.std(dtype=np.float64)
        require(
            min(scale, spread) > MIN_DEVIATION,
            f"data: expected examples with different values of {self.score!r} and different totals "
            f"of exp(logits), received {len(scores)} with the deviations {scale:g} and {spread:g}. "
            "Add others, or fit the step before those that normalize the logits.",
        )
        return {"center": scores.mean(), "scale": scale, "slope": self.strength * spread}

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        deviations = (state.values()[self.score] - fitted["center"]) / fitted["scale"]
        nats = tf.minimum(fitted["slope"] * tf.nn.relu(deviations - 1.0), MAX_NATS)
        state.kind = self.makes
        state.set_members(state.member_logits - nats[:, None])


def minimize(
    identity: np.ndarray, log_probs: np.ndarray, labels: np.ndarray, penalty: Callable
) -> dict[str, np.ndarray]:
    """Minimizes the negative log-likelihood of the scaled members' average plus a penalty.

    Args:
        identity: the kernel that changes nothing, `[classes]` (a diagonal) or `[classes, classes]`;
            the search starts from it divided by the best temperature.
        log_probs: log-probabilities `[members, n, classes]`.
        labels: `[n]`.
        penalty: function from kernel and bias to its value and its slopes in both.
    """
    from scipy import optimize

    num_members, count, num_classes = log_probs.shape
    flat = log_probs.reshape(-1, num_classes)
    rows, columns = np.arange(len(flat)), np.tile(labels, num_members)
    size, shape = identity.size, identity.shape

    def objective(vector):
        kernel, bias = vector[:size].reshape(shape), vector[size:]
        scaled = (flat @ kernel if kernel.ndim == 2 else flat * kernel) + bias
        scaled -= scaled.max(axis=1, keepdims=True)
        slope = np.exp(scaled)
        sums = slope.sum(axis=1)
        of_labels = (scaled[rows, columns] - np.log(sums)).reshape(num_members, count)
        log_mean = _log_mean_exp(of_labels)
        # A member's slope is that of its own cross-entropy times its share of the average.
        slope /= sums[:, None]
        slope[rows, columns] -= 1.0
        slope *= np.exp(of_labels - log_mean).reshape(-1, 1) / len(flat)
        kernel_slope = flat.T @ slope if kernel.ndim == 2 else np.sum(flat * slope, axis=0)
        value, kernel_part, bias_part = penalty(kernel, bias)
        slopes = kernel_slope + kernel_part, slope.sum(axis=0) + bias_part
        return value - log_mean.mean(), np.concatenate([slopes[0].ravel(), slopes[1]])

    inverse = TemperatureScaling().estimate_scaling(log_probs, labels)["kernel"]
    vector = np.concatenate([inverse * identity.ravel(), np.zeros(num_classes)])
    options = {"maxiter": 500, "ftol": 1e-10, "gtol": 1e-6}
    found = optimize.minimize(objective, vector, jac=True, method="L-BFGS-B", options=options)
    return {"kernel": found.x[:size].reshape(shape), "bias": found.x[size:]}


def _fit_member_temperature(log_probs, labels):
    from scipy import optimize, special

    rows = np.arange(len(labels))

    def objective(log_temperature):
        scaled = special.log_softmax(log_probs * np.exp(-log_temperature), axis=-1)
        return -np.mean(_log_mean_exp(scaled[:, rows, labels]))

    bounds = (-MAX_LOG_TEMPERATURE, MAX_LOG_TEMPERATURE)
    found = optimize.minimize_scalar(
        objective, bounds=bounds, method="bounded", options={"xatol": 1e-8}
    )
    return float(np.exp(found.x))


def _log_mean_exp(members):
    largest = members.max(axis=0)
    return largest + np.log(np.exp(members - largest).mean(axis=0))
