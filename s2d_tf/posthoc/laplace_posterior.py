"""The Gaussian posterior of a linear head: curvature, evidence, variances and draws.

Near the trained weights the log-posterior falls off with the generalized Gauss-Newton matrix of the
cross-entropy plus the prior precision. With Lambda = diag(p) - p p^T of an example with features f,
that matrix is the sum of Lambda (x) f f^T over the examples. Three structures of it:

    full         all of it, over weights and biases together
    kronecker    sum(Lambda) (x) mean(f f^T) for the weights, sum(Lambda) for the biases
    diagonal     its diagonal
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

STRUCTURES = ("full", "kronecker", "diagonal")
MAX_FULL_PARAMETERS = 8_000
"""The full matrix is square in the number of weights: 8,000 take half a gigabyte."""
MAX_BLOCK_NUMBERS = 2**25
"""Numbers in one block of Jacobians while the full matrix is summed."""


class Posterior(NamedTuple):
    """A Gaussian over the weights `[d, classes]` and biases `[classes]` of a linear head.

    Variances are `1 / (eigenvalues + prior_precision)` in an orthonormal basis: for "full" that of
    `basis`; for the others the products of the columns of `basis` `[d, d]` and `class_basis`.
    `bias_eigenvalues` is empty for "full".
    """

    structure: str
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
        if structure == "full":
            self._sum = np.zeros([(width + 1) * classes] * 2)
        elif structure == "kronecker":
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
        if self.structure == "diagonal":
            self._sum += (extended**2).T @ (probs * (1 - probs))
            return
        rows = max(1, MAX_BLOCK_NUMBERS // (probs.shape[1] * len(self._sum)))
        for i in range(0, len(features), rows):
            self._add_full(extended[i : i + rows], probs[i : i + rows])

    def _add_full(self, extended, probs):
        # Lambda = S S^T with S = diag(sqrt p) - p sqrt(p)^T.
        roots = np.sqrt(probs)
        factor = np.eye(probs.shape[1]) * roots[:, None, :] - probs[:, :, None] * roots[:, None, :]
        jacobian = np.einsum("nkc,ni->ncik", factor, extended)
        jacobian = jacobian.reshape(-1, len(self._sum))
        self._sum += jacobian.T @ jacobian

    def posterior(self) -> Posterior:
        """The eigenvalues and bases of all that was added."""
        width, classes = self.kernel.shape
        none = np.empty(0)
        if self.structure == "full":
            values, vectors = np.linalg.eigh(self._sum)
            return Posterior("full", np.maximum(values, 0.0), none, vectors, np.empty([0, 0]))
        if self.structure == "diagonal":
            bases = np.eye(width), np.eye(classes)
            return Posterior("diagonal", self._sum[:-1], self._sum[-1], *bases)
        values, basis = np.linalg.eigh(self._features / self.count)
        class_values, class_basis = np.linalg.eigh(self._classes)
        values, class_values = np.maximum(values, 0.0), np.maximum(class_values, 0.0)
        products = np.outer(values, class_values)
        return Posterior("kronecker", products, class_values, basis, class_basis)


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


def logit_variances(
    posterior: Posterior, precision: float, shape: tuple[int, int]
) -> dict[str, np.ndarray]:
    """Arrays from which the variance of each logit follows.

    Full: it is the squared length of `[f, 1] @ class_factors` `[classes, d + 1, d + 1]`. Otherwise
    it is `(f @ basis)^2 @ variances + bias_variances`.

    Args:
        posterior: the curvature.
        precision: of the prior.
        shape: of the kernel, `(d, classes)`.
    """
    if posterior.structure == "full":
        scaled = posterior.basis / np.sqrt(posterior.eigenvalues + precision)
        scaled = scaled.reshape(shape[0] + 1, shape[1], -1).transpose(1, 0, 2)
        covariance = scaled @ scaled.transpose(0, 2, 1)
        return {"class_factors": np.linalg.cholesky(covariance)}
    squares = (posterior.class_basis**2).T
    return {
        "basis": posterior.basis,
        "variances": (1.0 / (posterior.eigenvalues + precision)) @ squares,
        "bias_variances": (1.0 / (posterior.bias_eigenvalues + precision)) @ squares,
    }


def draw(
    posterior: Posterior, precision: float, num_draws: int, shape: tuple[int, int], seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the deviation from the trained head: `[draws, d, classes]`, `[draws, classes]`."""
    random = np.random.default_rng(seed)
    width, classes = shape
    if posterior.structure == "full":
        noise = random.standard_normal([num_draws, len(posterior.basis)])
        noise = noise / np.sqrt(posterior.eigenvalues + precision)
        both = (noise @ posterior.basis.T).reshape(num_draws, width + 1, classes)
        return both[:, :-1], both[:, -1]
    noise = random.standard_normal([num_draws, width, classes])
    noise = noise / np.sqrt(posterior.eigenvalues + precision)
    kernels = posterior.basis @ noise @ posterior.class_basis.T
    bias_noise = random.standard_normal([num_draws, classes])
    bias_noise = bias_noise / np.sqrt(posterior.bias_eigenvalues + precision)
    return kernels, bias_noise @ posterior.class_basis.T
