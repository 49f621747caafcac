"""Member predictions to what metrics take: log-probabilities and scores, in float64."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf import uncertainty
from s2d_tf._types import ArrayLike

if TYPE_CHECKING:
    from s2d_tf.evaluation.predictions import Predictions


@dataclasses.dataclass(frozen=True)
class Scored:
    """A dataset as a model sees it.

    Attributes:
        log_probs: float64 `[n, K]`, the log of the members' mean prediction.
        scores: `{uncertainty: [n]}`, larger is more uncertain. "confidence" is the negated log of
            the largest probability; "data" and "knowledge" are missing where a prediction does not
            decompose.
        labels: int64 `[n]`.
    """

    log_probs: np.ndarray
    scores: dict[str, np.ndarray]
    labels: np.ndarray

    @property
    def probs(self) -> np.ndarray:
        return np.exp(self.log_probs)

    @property
    def errors(self) -> np.ndarray:
        """Where the most probable class is not the label."""
        return self.log_probs.argmax(axis=-1) != self.labels


def score(predictions: Predictions) -> Scored:
    """`Scored` of `predictions.Predictions`, chunk by chunk."""
    parts = [scores(predictions.kind, chunk) for chunk in predictions.chunks()]
    joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
    return Scored(joined.pop("log_probs"), joined, predictions.labels)


def scores(kind: str, member_logits: ArrayLike) -> dict[str, np.ndarray]:
    """Log-probabilities and uncertainty scores of a member stack.

    Args:
        kind: "categorical" or "dirichlet".
        member_logits: `[members, n, K]`, logits, or log-concentrations of Dirichlets.

    Returns:
        Dict of float64 arrays: "log_probs" `[n, K]` and `[n]` "confidence", "total" and, unless it
        is a single categorical prediction, "data" and "knowledge".

    Example:

    >>> kind, member_logits = model.predict_members(images)
    >>> sorted(evaluation.scores(kind, member_logits))
    ['confidence', 'data', 'knowledge', 'log_probs', 'total']
    """
    logits = np.asarray(member_logits, dtype=np.float64)
    found = _compiled(kind, logits.shape[0], logits.shape[-1])(logits)
    return {key: value.numpy() for key, value in found.items()}


@functools.cache
def _compiled(kind, num_members, num_classes):
    # The number of members must be known to the graph: one does not decompose as many do.
    signature = [tf.TensorSpec([num_members, None, num_classes], tf.float64)]

    @tf.function(input_signature=signature)
    def compute(logits):
        answer = uncertainty.from_members(kind, logits)
        log_sum = tf.reduce_logsumexp(tf.nn.log_softmax(logits, axis=-1), axis=0)
        found = {
            "log_probs": log_sum - math.log(num_members),
            "confidence": uncertainty.confidence_score(kind, logits),
            "total": answer["total"],
        }
        if uncertainty.decomposes(kind, num_members):
            found |= {"data": answer["data"], "knowledge": answer["knowledge"]}
        return found

    return compute
