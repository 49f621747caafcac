"""LastLayerLaplace: a Gaussian posterior of the linear head of a trained network."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf.posthoc import checks
from s2d_tf.posthoc import laplace_posterior as posterior_lib
from s2d_tf.posthoc.predictor import chain, root
from s2d_tf.posthoc.step import Step

if TYPE_CHECKING:
    from s2d_tf.models import Predictor
    from s2d_tf.posthoc.predictor import State
    from s2d_tf.posthoc.source import Source

PREDICTIVES = ("draws", "probit")
MAX_LOG_PRECISION = 14.0
"""Prior precisions from exp(-14) to exp(14) are searched."""


def member_logits(features: tf.Tensor, kernels: tf.Tensor, biases: tf.Tensor) -> tf.Tensor:
    """Logits `[draws, batch, classes]` of features `[batch, d]` under drawn heads.

    One matrix product for all draws.

    Args:
        features: `[batch, d]`.
        kernels: `[d, draws * classes]`.
        biases: `[draws, classes]`.
    """
    num_draws, num_classes = biases.shape
    logits = tf.reshape(tf.matmul(features, kernels), [-1, num_draws, num_classes]) + biases
    return tf.transpose(logits, [1, 0, 2])


def _logit_variance(features: tf.Tensor, fitted: dict[str, tf.Tensor]) -> tf.Tensor:
    """Variances `[batch, classes]` of the logits, from `logit_variances`' arrays."""
    if "class_factors" not in fitted:
        projected = tf.square(tf.matmul(features, fitted["basis"]))
        return tf.matmul(projected, fitted["variances"]) + fitted["bias_variances"]
    factors = fitted["class_factors"]
    num_classes, width = factors.shape[:2]
    beside = tf.reshape(tf.transpose(factors, [1, 0, 2]), [width, num_classes * width])
    projected = tf.matmul(features, beside[:-1]) + beside[-1]
    projected = tf.reshape(projected, [-1, num_classes, width])
    return tf.reduce_sum(tf.square(projected), axis=-1)


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
        structure: of the covariance: `"full"` (for small heads), `"kronecker"` or `"diagonal"`.
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
        self.structure = checks.choice(structure, "structure", posterior_lib.STRUCTURES)
        self.predictive = checks.choice(predictive, "predictive", PREDICTIVES)
        super().__init__((name or "laplace_variance") if predictive == "probit" else None)
        self.num_draws = checks.positive(num_draws, "num_draws", int)
        if prior_precision is not None:
            checks.positive(prior_precision, "prior_precision")
        self.prior_precision = prior_precision
        self.seed = seed

    def check_model(self, model: Predictor) -> None:
        super().check_model(model)
        changed = [p.step for p in chain(model) if p.step.changes_members]
        if changed or root(model).num_members != 1:
            received = repr(changed[-1]) if changed else f"{root(model).num_members} members"
            raise ValueError(
                f"model: expected a single network without calibration, received {received}. Fit "
                "LastLayerLaplace first, then other steps on its result."
            )

    def num_members(self, model: Predictor) -> int:
        return self.num_draws if self.predictive == "draws" else 1

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        head = source.head()
        kernel, bias = head["kernel"], head["bias"]
        size = (kernel.shape[0] + 1) * kernel.shape[1]
        if self.structure == "full" and size > posterior_lib.MAX_FULL_PARAMETERS:
            raise ValueError(
                f"structure: expected 'kronecker' or 'diagonal' for a head of {size} parameters, "
                f"received 'full'. It is for up to {posterior_lib.MAX_FULL_PARAMETERS}."
            )
        curvature = posterior_lib.Curvature(self.structure, kernel, bias)
        for state, labels in source.blocks(features=True):
            features = checks.finite(state.features.numpy(), "features")
            curvature.add(features, source.labels(labels, state))
        checks.num_examples(curvature.count, 2)
        posterior = curvature.posterior()
        square_norm = float(np.sum(curvature.kernel**2) + np.sum(curvature.bias**2))

        def evidence(precision):
            return posterior_lib.log_evidence(
                posterior, curvature.log_likelihood, square_norm, precision
            )

        precision = self.prior_precision or _best_precision(evidence)
        facts = {"precision": precision, "log_evidence": evidence(precision)}
        if self.predictive == "probit":
            arrays = posterior_lib.logit_variances(posterior, precision, kernel.shape)
            return {**head, **arrays, **facts}
        kernels, biases = posterior_lib.draw(
            posterior, precision, self.num_draws, kernel.shape, self.seed
        )
        kernels = (kernels + kernel).transpose(1, 0, 2).reshape(len(kernel), -1)
        return {"kernels": kernels.astype(np.float32), "biases": biases + bias, **facts}

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        if self.predictive == "draws":
            state.set_members(member_logits(state.features, fitted["kernels"], fitted["biases"]))
            return
        logits = tf.matmul(state.features, fitted["kernel"]) + fitted["bias"]
        variance = _logit_variance(state.features, fitted)
        factor = 1.0 / tf.sqrt(1.0 + math.pi / 8.0 * variance)
        if state.kind == "dirichlet":
            # As in calibration: the mean changes, the total concentration stays.
            scaled = tf.nn.log_softmax(logits * factor, axis=-1)
            scaled += (logits - tf.nn.log_softmax(logits, axis=-1))[:, :1]
        else:
            scaled = logits * factor
        state.set_members(scaled[None])
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
