"""ConformalSets: sets of classes that contain the label with a stated chance."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf._types import Data, TensorLike
from s2d_tf.posthoc import checks
from s2d_tf.posthoc import conformal_scores as scores_lib
from s2d_tf.posthoc.predictor import StepPredictor
from s2d_tf.posthoc.source import Source
from s2d_tf.posthoc.step import Step

if TYPE_CHECKING:
    from s2d_tf.models import Predictor
    from s2d_tf.posthoc.predictor import State


class SetPredictor(StepPredictor):
    """A model with prediction sets."""

    def predict_sets(self, inputs: Data, batch_size: int = 256) -> np.ndarray:
        """Whether each class is in the set, `[batch, classes]`.

        Args:
            inputs: as for `predict_uncertainty`, or `Outputs` of the network.
            batch_size: how many inputs to hold at once; it does not change the sets.
        """
        return self.predict_output(inputs, batch_size)


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
        strata: one threshold for each of so many ranges of knowledge uncertainty with equally many
            calibration examples, or for the ranges between the given edges. The guarantee is exact
            for given edges, and nearly so for edges that come from the calibration examples.
        penalty: RAPS: added to the score for each rank beyond `free_classes`.
        free_classes: RAPS: ranks without penalty.
        name: key of the sets.

    Example:

    >>> step = posthoc.ConformalSets(coverage=0.8, method="aps").fit(model, (images, labels))
    >>> step.predict_sets(images).shape
    (40, 3)
    """

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
        strata: int | list[float] | None = None,
        penalty: float = 0.01,
        free_classes: int = 5,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        self.coverage = checks.fraction(coverage, "coverage")
        self.method = checks.choice(method, "method", scores_lib.METHODS)
        if randomized and method == "lac":
            raise ValueError(
                "randomized: expected False for method 'lac', received True. Choose the method "
                "'aps' or 'raps'."
            )
        if class_conditional and strata is not None:
            raise ValueError(
                f"strata: expected None with class_conditional=True, received {strata!r}. Choose "
                "one of the two."
            )
        self.randomized = randomized
        self.class_conditional = class_conditional
        self.strata = strata if isinstance(strata, (int, type(None))) else list(strata)
        self.penalty = checks.positive(penalty, "penalty")
        self.free_classes = free_classes

    def check_model(self, model: Predictor) -> None:
        if self.strata is not None and not model.decomposes:
            raise ValueError(
                "strata: expected a model with knowledge uncertainty, received one categorical "
                "prediction. Use an S2D network, an ensemble or LastLayerLaplace."
            )

    def scores(self, state: State) -> tf.Tensor:
        """Conformal scores of all classes, `[batch, classes]`."""
        probs = state.uncertainty["probs"]
        if self.method == "lac":
            return scores_lib.lac_scores(probs)
        draws = scores_lib.hashed_draws(state.member_logits) if self.randomized else None
        if self.method == "aps":
            return scores_lib.cumulative_scores(probs, draws)
        return scores_lib.cumulative_scores(probs, draws, self.penalty, self.free_classes)

    def estimate(self, source: Source) -> dict[str, np.ndarray]:
        blocks = []
        for state, found in source.blocks():
            found = source.labels(found, state)
            of_all = checks.finite(self.scores(state).numpy(), "predictions")
            of_labels = of_all[np.arange(len(found)), found]
            blocks.append((of_labels, found, state.uncertainty["knowledge"].numpy()))
        scores, labels, knowledge = map(np.concatenate, zip(*blocks, strict=True))
        if self.class_conditional:
            groups, edges = labels, np.empty(0)
            names = [f" of class {c}" for c in range(source.model.num_classes)]
        else:
            edges = self._edges(knowledge)
            groups = stratum(knowledge, edges).numpy()
            names = [f" in stratum {i}" for i in range(len(edges) + 1)]
            names = names if len(edges) else [""]
        thresholds = [
            scores_lib.threshold(scores[groups == i], self.coverage, where)
            for i, where in enumerate(names)
        ]
        return {"thresholds": np.array(thresholds, np.float32), "edges": edges}

    def _edges(self, knowledge):
        if isinstance(self.strata, list):
            return np.array(self.strata, np.float32)
        count = checks.positive(1 if self.strata is None else self.strata, "strata", int)
        return np.quantile(knowledge, np.arange(1, count) / count).astype(np.float32)

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        thresholds = fitted["thresholds"]
        if not self.class_conditional:
            if self.strata is None:
                thresholds = thresholds[0]
            else:
                found = stratum(state.uncertainty["knowledge"], fitted["edges"])
                thresholds = tf.gather(thresholds, found)[:, None]
        state.outputs[self.name] = self.scores(state) <= thresholds


def stratum(values: TensorLike, edges: TensorLike) -> tf.Tensor:
    """How many edges each value exceeds, `[batch]`."""
    above = tf.convert_to_tensor(values)[:, None] > tf.convert_to_tensor(edges, tf.float32)
    return tf.reduce_sum(tf.cast(above, tf.int32), axis=-1)
