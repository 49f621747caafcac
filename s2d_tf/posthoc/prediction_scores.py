"""Detectors that read the prediction alone; nothing is fitted."""

from __future__ import annotations

import tensorflow as tf

from s2d_tf.models import Predictor
from s2d_tf.posthoc.predictor import State
from s2d_tf.posthoc.step import Detector, choice, positive

SERIES_LIMIT = 0.03
"""Five terms of -ln(1 - x) are exact to float32 below it, and the logarithm above."""

MIN_PROB = 1e-18
"""Smaller probabilities count as this one: of products below 1e-38 some runtimes make 0."""


def log_sum_exp(logits: tf.Tensor) -> tf.Tensor:
    """Over the last axis; `tf.reduce_logsumexp` has operations that not every runtime has."""
    largest = tf.reduce_max(logits, axis=-1, keepdims=True)
    return largest[..., 0] + tf.math.log(tf.reduce_sum(tf.exp(logits - largest), axis=-1))


def confidence_score(member_logits: tf.Tensor) -> tf.Tensor:
    """The negated log of the largest mean probability, as `uncertainty.confidence_score`.

    It follows from the sum of the others, -ln(1 - sum), which keeps its digits near 1; where that
    sum is small from its series, since LiteRT computes log1p as a logarithm, which loses them.
    """
    probs = tf.reduce_mean(tf.nn.softmax(member_logits, axis=-1), axis=0)
    others = tf.reduce_sum(tf.math.top_k(probs, k=probs.shape[-1]).values[:, 1:], axis=-1)
    series = others * (1.0 + others * (1 / 2 + others * (1 / 3 + others * (1 / 4 + others / 5))))
    return tf.where(others < SERIES_LIMIT, series, -tf.math.log(1.0 - others))


def energy_score(member_logits: tf.Tensor, temperature: float = 1.0) -> tf.Tensor:
    """`-T logsumexp(logits / T)`, averaged over the members."""
    return -temperature * tf.reduce_mean(log_sum_exp(member_logits / temperature), axis=0)


class MSP(Detector):
    """The negated log of the largest probability (Hendrycks & Gimpel, 2017).

    The log orders inputs as the probability does, without ties near 1.

    Example:

    >>> detector = posthoc.MSP().fit(model)
    >>> detector.score(images).shape
    (40,)
    """

    title = "MSP"
    output = "msp"
    needs_data = False

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return confidence_score(state.member_logits)


class MaxLogit(Detector):
    """The negated largest logit (Hendrycks et al., 2022).

    Example:

    >>> posthoc.MaxLogit().fit(model).score(images).shape
    (40,)
    """

    title = "MaxLogit"
    output = "max_logit"
    needs_data = False

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return -tf.reduce_mean(tf.reduce_max(state.member_logits, axis=-1), axis=0)


class Energy(Detector):
    """The free energy of the logits (Liu et al., 2020).

    Of a Dirichlet prediction it is, at temperature 1, the negated log of the total concentration.

    Args:
        temperature: divides the logits.
        name: key of the score.

    Example:

    >>> posthoc.Energy(temperature=2.0).fit(model).score(images).shape
    (40,)
    """

    title = "Energy"
    output = "energy"
    needs_data = False

    def __init__(self, temperature: float = 1.0, name: str | None = None) -> None:
        super().__init__(name)
        self.temperature = positive(temperature, "temperature")

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        return energy_score(state.member_logits, self.temperature)


class GEN(Detector):
    """The generalized entropy of the largest probabilities (Liu et al., 2023).

    `sum_c p_c^gamma (1 - p_c)^gamma`.

    Args:
        gamma: the power.
        num_top: how many of the largest probabilities to use; default: all. The paper uses 100 of
            1000 classes.
        name: key of the score.

    Example:

    >>> posthoc.GEN(gamma=0.1).fit(model).score(images).shape
    (40,)
    """

    title = "GEN"
    output = "gen"
    needs_data = False

    def __init__(
        self, gamma: float = 0.1, num_top: int | None = None, name: str | None = None
    ) -> None:
        super().__init__(name)
        self.gamma = positive(gamma, "gamma")
        self.num_top = None if num_top is None else positive(num_top, "num_top", int)

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        probs = state.uncertainty["probs"]
        probs = tf.math.top_k(probs, k=probs.shape[-1]).values
        # 1 minus a probability near 1 has no digits left; the sum of the others has.
        others = tf.reduce_sum(probs[:, 1:], axis=-1, keepdims=True)
        others = tf.concat([others, 1.0 - probs[:, 1:]], axis=-1)
        terms = tf.pow(tf.maximum(probs, MIN_PROB) * tf.maximum(others, MIN_PROB), self.gamma)
        return tf.reduce_sum(terms[:, : self.num_top or terms.shape[-1]], axis=-1)


class Uncertainty(Detector):
    """One of the model's own uncertainties as a detector.

    Args:
        measure: `"confidence"` (the score is that of `MSP`), `"total"`, `"data"` or `"knowledge"`.
        name: key of the score; default: the measure and `_score`.

    Example:

    >>> posthoc.Uncertainty("knowledge").fit(model).score(images).shape
    (40,)
    """

    title = "Uncertainty"
    needs_data = False

    def __init__(self, measure: str = "knowledge", name: str | None = None) -> None:
        self.measure = choice(measure, "measure", ("confidence", "total", "data", "knowledge"))
        super().__init__(name or f"{measure}_score")

    def check(self, model: Predictor) -> None:
        super().check(model)
        if self.measure in ("data", "knowledge") and not model.decomposes:
            raise ValueError(
                "measure: expected 'confidence' or 'total' for one categorical prediction, "
                f"received {self.measure!r}. Only Dirichlet predictions and several members "
                "split into data and knowledge."
            )
        if self.measure == "knowledge":
            model.warn_only_cast()

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        if self.measure == "confidence":
            return confidence_score(state.member_logits)
        return tf.identity(state.uncertainty[self.measure])
