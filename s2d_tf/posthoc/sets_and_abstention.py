"""Answers with a guarantee: sets of classes, and abstention where an answer may be wrong.

A conformal score is any fixed function of an input and a class, larger = less fitting. If new
examples come from the same source as the calibration examples, the set of all classes whose score
is at most the k-th smallest of the n scores of the calibration labels, k = ceil((n + 1) coverage),
contains the label with at least the stated chance.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf.models import Predictor
from s2d_tf.models.contract import require
from s2d_tf.posthoc.predictor import State, StepPredictor
from s2d_tf.posthoc.step import FitData, Step, check_score, choice, finite, fraction, positive

HASH_SCALE = 10.0
"""Makes a weighted sum of logits differ by much more than 1 between inputs, so that what is after
its decimal point looks random, and by much less than 1 between runtimes that round differently."""


class SetPredictor(StepPredictor):
    """A model with prediction sets."""

    predict_sets = StepPredictor.predict_output
    """Whether each class is in the set, `[batch, classes]`."""


class ConformalSets(Step):
    """Sets of classes that contain the label with at least the stated chance.

    It holds on average over new examples from the same source as the calibration examples, which
    the network must not have been trained on. A set may be empty: then no class fits.

    Args:
        coverage: the chance that a set contains the label.
        method: `"lac"` (the smallest sets), `"aps"` (adapts to hard inputs) or `"raps"` (the same
            with a penalty on large sets).
        randomized: APS and RAPS: leave out a share of the last class, drawn from a hash of the
            prediction, so that coverage is not exceeded; the same input gets the same set.
        class_conditional: one threshold for each class, so that each class is covered.
        penalty: RAPS: added to the score for each rank beyond `free_classes`.
        free_classes: RAPS: ranks without penalty.
        name: key of the sets.

    Example:

    >>> step = posthoc.ConformalSets(coverage=0.8, method="aps").fit(model, (images, labels))
    >>> step.predict_sets(images).shape
    (40, 3)
    """

    title = "Conformal sets"
    output = "prediction_set"
    served = "prediction_set"
    held_out = True
    predictor_class = SetPredictor

    def __init__(
        self,
        coverage: float = 0.9,
        method: str = "lac",
        randomized: bool = False,
        class_conditional: bool = False,
        penalty: float = 0.01,
        free_classes: int = 5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.coverage = fraction(coverage, "coverage")
        self.method = choice(method, "method", ("lac", "aps", "raps"))
        require(
            not randomized or method != "lac",
            "randomized: expected False for method 'lac', received True. Choose the method "
            "'aps' or 'raps'.",
        )
        self.randomized = randomized
        self.class_conditional = class_conditional
        self.penalty = positive(penalty, "penalty")
        self.free_classes = free_classes

    def scores(self, state: State) -> tf.Tensor:
        """Conformal scores of all classes, `[batch, classes]`."""
        probs = state.uncertainty["probs"]
        if self.method == "lac":
            return 1.0 - probs  # Sadinle et al., 2019
        draws = hashed_draws(state.member_logits) if self.randomized else None
        penalty = self.penalty if self.method == "raps" else 0.0
        return cumulative_scores(probs, draws, penalty, self.free_classes)

    def estimate(self, data: FitData) -> dict[str, np.ndarray]:
        def of_labels(state, labels):
            scores = finite(self.scores(state).numpy(), "predictions")
            return scores[np.arange(len(labels)), labels], labels

        scores, labels = data.gather(of_labels)
        parts = {"": scores}
        if self.class_conditional:
            classes = range(data.model.num_classes)
            parts = {f" of class {c}": scores[labels == c] for c in classes}
        found = [threshold(part, self.coverage, where) for where, part in parts.items()]
        return {"thresholds": np.array(found, np.float32)}

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        # One threshold, or one for each class.
        state.outputs[self.name] = self.scores(state) <= fitted["thresholds"]


def cumulative_scores(
    probs: tf.Tensor, draws: tf.Tensor | None = None, penalty: float = 0.0, free_classes: int = 0
) -> tf.Tensor:
    """APS (Romano et al., 2020) and, with a penalty, RAPS (Angelopoulos et al., 2021).

    The sum of the probabilities from the largest down to the class, plus `penalty` for each rank
    beyond `free_classes`.

    Args:
        probs: `[batch, classes]`.
        draws: numbers in [0, 1), `[batch]`: that share of the class's own probability does not
            count, which makes sets smaller. `None` counts all of it.
        penalty, free_classes: of RAPS.

    Returns:
        `[batch, classes]`.
    """
    num_classes = probs.shape[-1]
    sorted_probs, order = tf.math.top_k(probs, k=num_classes)
    scores = tf.cumsum(sorted_probs, axis=-1)
    if draws is not None:
        scores -= draws[:, None] * sorted_probs
    beyond = np.maximum(np.arange(1, num_classes + 1) - free_classes, 0)
    scores += tf.constant(penalty * beyond, scores.dtype)
    # The place of each class in the order, by sorting the order itself.
    places = tf.math.top_k(-tf.cast(order, tf.float32), k=num_classes).indices
    return tf.gather(scores, places, axis=1, batch_dims=1)


def hashed_draws(member_logits: tf.Tensor) -> tf.Tensor:
    """A number in [0, 1) for each input that depends on its prediction alone.

    It replaces a random draw: the same input always gets the same set, and the guarantee holds
    because the score remains a fixed function of the input.
    """
    mean = tf.reduce_mean(member_logits, axis=0)
    weights = np.random.default_rng(0).uniform(0.5, 1.5, mean.shape[-1]).astype(np.float32)
    value = tf.abs(tf.reduce_sum(mean * weights, axis=-1)) * HASH_SCALE
    value = tf.minimum(value, 2.0**30)
    return value - tf.cast(tf.cast(value, tf.int32), tf.float32)


def threshold(scores: np.ndarray, coverage: float, where: str = "") -> float:
    """The `ceil((n + 1) coverage)`-th smallest of the n scores of the calibration labels.

    Args:
        scores: `[n]`.
        coverage: the chance that a set contains the label.
        where: names the examples in the error that too few of them raise.
    """
    needed = math.ceil(coverage / (1.0 - coverage) - 1e-9)
    require(
        len(scores) >= needed,
        f"data: expected at least {needed} calibration examples{where} for a coverage of "
        f"{coverage:g}, received {len(scores)}. Add examples or lower `coverage`.",
    )
    rank = math.ceil((len(scores) + 1) * coverage - 1e-9)
    return float(np.partition(scores, rank - 1)[rank - 1])


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
    bounds = stats.beta.ppf(confidence, wrong + 1, accepted - wrong)  # NaN where all are wrong
    good = np.flatnonzero(bounds <= max_risk)
    if not len(good):
        return None
    best = good[-1]
    return float(curve.threshold[best]), float(curve.coverage[best]), float(bounds[best])


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

    def __init__(
        self,
        max_risk: float = 0.1,
        score: str = "total",
        confidence: float = 0.95,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.max_risk = fraction(max_risk, "max_risk")
        self.confidence = fraction(confidence, "confidence")
        self.score = score

    def check(self, model: Predictor) -> None:
        super().check(model)
        check_score(self.score, model)

    def estimate(self, data: FitData) -> dict[str, Any]:
        def of_block(state, labels):
            wrong = tf.argmax(state.uncertainty["probs"], axis=-1).numpy() != labels
            return finite(state.values()[self.score].numpy(), "scores"), wrong

        scores, errors = data.gather(of_block)
        chosen = choose_threshold(scores, errors, self.max_risk, self.confidence)
        require(
            chosen is not None,
            f"max_risk: expected an error rate that some threshold keeps with "
            f"{self.confidence:.0%} confidence on {len(errors)} examples ({errors.mean():.1%} "
            f"wrong), received {self.max_risk}. Raise `max_risk` or add examples.",
        )
        return dict(zip(("threshold", "coverage", "risk_bound"), chosen or (), strict=True))

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        state.outputs[self.name] = tf.greater(state.values()[self.score], fitted["threshold"])
