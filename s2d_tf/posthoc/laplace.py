"""LastLayerLaplace: a Gaussian posterior of the linear head of a trained network.

Near the trained weights the log-posterior falls off with the generalized Gauss-Newton matrix of the
cross-entropy plus the prior precision. With Lambda = diag(p) - p p^T of an example with features f,
that matrix is the sum of Lambda (x) f f^T over the examples. Two approximations of it:

    kronecker    sum(Lambda) (x) mean(f f^T) for the weights, sum(Lambda) for the biases
    diagonal     its diagonal
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from s2d_tf.models import Predictor
from s2d_tf.posthoc.predictor import State, chain, root
from s2d_tf.posthoc.step import FitData, Step, check_num_examples, choice, positive

MAX_LOG_PRECISION = 14.0
"""Prior precisions from exp(-14) to exp(14) are searched."""


class LastLayerLaplace(Step):
    """Laplace's approximation of the posterior of the last layer (Daxberger et al., 2021).

    The likelihood is the softmax cross-entropy of the labels. For a network with a Dirichlet head
    (S2D) it is that of the Dirichlet's mean: the chance of one label under a Dirichlet is its mean,
    the softmax of the log-concentrations, so the curvature is the same. Its draws are then members
    with a Dirichlet each, and knowledge uncertainty is theirs and their disagreement together.

    With `predictive="draws"` the members are heads drawn from the posterior, the same for all
    inputs. With `"probit"` there is one member, its logits divided by `sqrt(1 + pi/8 variance)`,
    which does not decompose into data and knowledge; `laplace_variance`, the mean variance of the
    logits, is added. Fit it before other steps, on the data on which the network was trained.

    Args:
        structure: of the covariance: `"kronecker"` or `"diagonal"`.
        predictive: `"draws"` or `"probit"`.
        num_draws: number of drawn heads.
        prior_precision: of the Gaussian prior; `None` maximizes the marginal likelihood.
        seed: of the draws.
        name: key of the variance.

    Example:

    >>> laplace = posthoc.LastLayerLaplace(num_draws=10).fit(model, (images, labels))
    >>> laplace.predict_uncertainty(images)["knowledge"].shape
    (40,)
    >>> laplace.num_members
    10
    """

    title = "Last-layer Laplace"
    reads_features = True
    changes_members = True

    def __init__(
        self,
        structure: str = "kronecker",
        predictive: str = "draws",
        num_draws: int = 20,
        prior_precision: float | None = None,
        seed: int = 0,
        name: str | None = None,
    ) -> None:
        self.structure = choice(structure, "structure", ("kronecker", "diagonal"))
        self.predictive = choice(predictive, "predictive", ("draws", "probit"))
        super().__init__((name or "laplace_variance") if predictive == "probit" else None)
        self.num_draws = positive(num_draws, "num_draws", int)
        if prior_precision is not None:
            positive(prior_precision, "prior_precision")
        self.prior_precision = prior_precision
        self.seed = seed

    def check(self, model: Predictor) -> None:
        super().check(model)
        changed = [p.step for p in chain(model) if p.step.changes_members]
        if changed or root(model).num_members != 1:
            received = repr(changed[-1]) if changed else f"{root(model).num_members} members"
            raise ValueError(
                f"model: expected a single network without calibration, received {received}. Fit "
                "LastLayerLaplace first, then other steps on its result."
            )

    def num_members(self, model: Predictor) -> int:
        return self.num_draws if self.predictive == "draws" else 1

    def estimate(self, data: FitData) -> dict[str, Any]:
        kernel, bias = data.head().values()
        curvature = Curvature(self.structure, kernel, bias)
        for features, labels in data.labeled_features():
            curvature.add(features, labels)
        check_num_examples(curvature.count, 2)
        posterior = curvature.posterior()
        square_norm = float(np.sum(curvature.kernel**2) + np.sum(curvature.bias**2))

        def evidence(precision):
            return log_evidence(posterior, curvature.log_likelihood, square_norm, precision)

        precision = self.prior_precision or _best_precision(evidence)
        facts = {"precision": precision, "log_evidence": evidence(precision)}
        if self.predictive == "probit":
            return {**logit_variances(posterior, precision), **facts}
        kernels, biases = draw(posterior, precision, self.num_draws, self.seed)
        kernels = (kernels + kernel).transpose(1, 0, 2).reshape(len(kernel), -1)
        return {"kernels": kernels.astype(np.float32), "biases": biases + bias, **facts}

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        if self.predictive == "draws":
            # One matrix product for all draws: `kernels` is [d, draws * classes].
            logits = tf.matmul(state.features, fitted["kernels"])
            logits = tf.reshape(logits, [-1, *fitted["biases"].shape]) + fitted["biases"]
            state.set_members(tf.transpose(logits, [1, 0, 2]))
            return
        squares = tf.square(tf.matmul(state.features, fitted["basis"]))
        variance = tf.matmul(squares, fitted["variances"]) + fitted["bias_variances"]
        # As in calibration: of a Dirichlet the mean changes and the total concentration stays.
        state.set_means(state.member_logits / tf.sqrt(1.0 + math.pi / 8.0 * variance))
        state.outputs[self.name] = tf.reduce_mean(variance, axis=-1)


def _best_precision(evidence: Callable[[float], float]) -> float:
    """The prior precision with the largest marginal likelihood."""
    from scipy import optimize

    # The evidence has one maximum in all but contrived cases; a coarse grid finds its valley.
    grid = np.linspace(-MAX_LOG_PRECISION, MAX_LOG_PRECISION, 57)
    best = int(np.argmax([evidence(math.exp(value)) for value in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    found = optimize.minimize_scalar(
        lambda value: -evidence(math.exp(value)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-8},
    )
    return float(math.exp(found.x))


class Posterior(NamedTuple):
    """A Gaussian over the weights `[d, classes]` and biases `[classes]` of a linear head.

    Variances are `1 / (eigenvalues + prior_precision)` in an orthonormal basis, the products of the
    columns of `basis` `[d, d]` and `class_basis`.
    """

    eigenvalues: np.ndarray
    bias_eigenvalues: np.ndarray
    basis: np.ndarray
    class_basis: np.ndarray


class Curvature:
    """Sums the curvature and the log-likelihood of the labels over a stream, in float64."""

    def __init__(self, structure: str, kernel: np.ndarray, bias: np.ndarray) -> None:
        self.structure = structure
        self.kernel, self.bias = kernel.astype(np.float64), bias.astype(np.float64)
        self.count, self.log_likelihood = 0, 0.0
        width, classes = kernel.shape
        if structure == "kronecker":
            self._features, self._classes = np.zeros([width, width]), np.zeros([classes, classes])
        else:
            self._sum = np.zeros([width + 1, classes])

    def add(self, features: np.ndarray, labels: np.ndarray) -> None:
        """Adds a block `[n, d]` and its labels `[n]`."""
        features = features.astype(np.float64)
        logits = features @ self.kernel + self.bias
        logits -= logits.max(axis=1, keepdims=True)
        probs = np.exp(logits)
        self.log_likelihood += np.sum(
            logits[np.arange(len(labels)), labels] - np.log(probs.sum(axis=1))
        )
        probs /= probs.sum(axis=1, keepdims=True)
        self.count += len(features)
        if self.structure == "kronecker":
            self._features += features.T @ features
            self._classes += np.diag(probs.sum(axis=0)) - probs.T @ probs
            return
        extended = np.concatenate([features, np.ones([len(features), 1])], axis=1)
        self._sum += (extended**2).T @ (probs * (1 - probs))

    def posterior(self) -> Posterior:
        """The eigenvalues and bases of all that was added."""
        if self.structure == "diagonal":
            return Posterior(self._sum[:-1], self._sum[-1], *map(np.eye, self.kernel.shape))
        values, basis = np.linalg.eigh(self._features / self.count)
        class_values, class_basis = np.linalg.eigh(self._classes)
        values, class_values = np.maximum(values, 0.0), np.maximum(class_values, 0.0)
        return Posterior(np.outer(values, class_values), class_values, basis, class_basis)


def log_evidence(
    posterior: Posterior, log_likelihood: float, square_norm: float, precision: float
) -> float:
    """Laplace's approximation of the log marginal likelihood.

    Args:
        posterior: the curvature.
        log_likelihood: of the labels at the trained weights.
        square_norm: of the trained weights and biases.
        precision: of the prior, a Gaussian about 0.
    """
    eigenvalues = np.concatenate([posterior.eigenvalues.ravel(), posterior.bias_eigenvalues])
    log_ratio = np.sum(np.log1p(eigenvalues / precision))
    return float(log_likelihood - 0.5 * (log_ratio + precision * square_norm))


def logit_variances(posterior: Posterior, precision: float) -> dict[str, np.ndarray]:
    """Arrays that give the variances of the logits, `(f @ basis)^2 @ variances + bias_variances`.

    Args:
        posterior: the curvature.
        precision: of the prior.
    """
    squares = (posterior.class_basis**2).T
    return {
        "basis": posterior.basis,
        "variances": (1.0 / (posterior.eigenvalues + precision)) @ squares,
        "bias_variances": (1.0 / (posterior.bias_eigenvalues + precision)) @ squares,
    }


def draw(
    posterior: Posterior, precision: float, num_draws: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the deviation from the trained head: `[draws, d, classes]`, `[draws, classes]`."""
    random = np.random.default_rng(seed)
    noise = random.standard_normal([num_draws, *posterior.eigenvalues.shape])
    noise = noise / np.sqrt(posterior.eigenvalues + precision)
    kernels = posterior.basis @ noise @ posterior.class_basis.T
    bias_noise = random.standard_normal([num_draws, *posterior.bias_eigenvalues.shape])
    bias_noise = bias_noise / np.sqrt(posterior.bias_eigenvalues + precision)
    return kernels, bias_noise @ posterior.class_basis.T
