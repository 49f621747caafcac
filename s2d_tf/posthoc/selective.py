"""SelectiveClassifier: abstains where an answer would be wrong too often."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf.posthoc import fitting
from s2d_tf.posthoc.fitting import FitData
from s2d_tf.posthoc.predictor import State, StepPredictor
from s2d_tf.posthoc.step import Step


def choose_threshold(
    scores: np.ndarray, errors: np.ndarray, max_risk: float, confidence: float = 0.95
) -> tuple[float, float, float] | None:
    """The largest threshold at which answers are wrong no more often than `max_risk`.

    The error rate seen on some hundred examples is luck in part. The bound used here (Clopper and
    Pearson, for each threshold by itself) holds for new examples from the same source with the
    given confidence.

    Args:
        scores: uncertainties `[n]`; inputs with a larger one than the threshold are not answered.
        errors: whether each answer is wrong `[n]`.
        max_risk: the highest error rate among the answers given.
        confidence: of the bound.

    Returns:
        (threshold, coverage, bound), or `None` if no threshold is good enough.

    Example:

    >>> scores = np.linspace(0.0, 1.0, 100)
    >>> threshold, coverage, bound = posthoc.choose_threshold(scores, scores > 0.9, max_risk=0.05)
    >>> coverage, bound <= 0.05
    (0.9, True)
    """
    from scipy import stats

    from s2d_tf import metrics

    curve = metrics.risk_coverage_curve(scores, errors)
    accepted = (curve.coverage * len(scores)).round()
    wrong = (curve.generalized_risk * len(scores)).round()
    bounds = np.ones(len(accepted))
    some_right = wrong < accepted
    bounds[some_right] = stats.beta.ppf(
        confidence, wrong[some_right] + 1, (accepted - wrong)[some_right]
    )
    good = np.flatnonzero(bounds <= max_risk)
    if not len(good):
        return None
    best = good[-1]
    return float(curve.threshold[best]), float(curve.coverage[best]), float(bounds[best])


class SelectivePredictor(StepPredictor):
    """A model that abstains."""

    predict_abstain = StepPredictor.predict_output
    """Whether the model abstains, `[batch]`."""


class SelectiveClassifier(Step):
    """Abstains above the uncertainty at which answers would be wrong too often.

    `arrays` holds the threshold, the coverage (share of calibration examples that are answered) and
    the bound of the error rate among them.

    Args:
        max_risk: the highest error rate among the answers given.
        score: key of the uncertainty: `"total"`, `"data"`, `"knowledge"`, or the name of a detector
            that was fitted before.
        confidence: with which the bound of the error rate holds.
        name: key of the output.

    Example:

    >>> step = posthoc.SelectiveClassifier(max_risk=0.5).fit(model, (images, labels))
    >>> step.predict_uncertainty(images)["abstain"].dtype
    dtype('bool')
    """

    title = "Selective classifier"
    output = "abstain"
    served = "abstain"
    held_out = True
    predictor_class = SelectivePredictor

    def __init__(
        self,
        max_risk: float = 0.1,
        score: str = "total",
        confidence: float = 0.95,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.max_risk = fitting.fraction(max_risk, "max_risk")
        self.confidence = fitting.fraction(confidence, "confidence")
        self.score = score

    def estimate(self, data: FitData) -> dict[str, Any]:
        state, _ = next(iter(data.states()))
        known = [key for key, value in state.values().items() if value.shape.rank == 1]
        known.remove("confidence")  # large where the model is certain
        fitting.choice(self.score, "score", tuple(known))
        found = data.gather("probs", self.score)
        scores = fitting.finite(found[self.score], "scores")
        errors = found["probs"].argmax(axis=-1) != found["labels"]
        chosen = choose_threshold(scores, errors, self.max_risk, self.confidence)
        if chosen is None:
            raise ValueError(
                f"max_risk: expected an error rate that some threshold keeps with "
                f"{self.confidence:.0%} confidence on {len(errors)} examples ({errors.mean():.1%} "
                f"wrong), received {self.max_risk}. Raise `max_risk` or add examples."
            )
        return dict(zip(("threshold", "coverage", "risk_bound"), chosen, strict=True))

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        state.outputs[self.name] = tf.greater(state.values()[self.score], fitted["threshold"])
