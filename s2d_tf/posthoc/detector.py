"""What all detectors have in common: a score for each input, larger = more out of distribution."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from s2d_tf._types import Data
from s2d_tf.posthoc.predictor import State, StepPredictor
from s2d_tf.posthoc.step import Step


class DetectorPredictor(StepPredictor):
    """A model with a detector."""

    def score(self, inputs: Data, batch_size: int = 256) -> np.ndarray:
        """Scores `[batch]`, larger = more out of distribution.

        Args:
            inputs: as for `predict_uncertainty`, or `Outputs` of the network.
            batch_size: how many inputs to hold at once; it does not change the scores.
        """
        return self.predict_output(inputs, batch_size)


class Detector(Step):
    """Base of detectors: a subclass defines `scores`."""

    served = "ood_score"
    predictor_class = DetectorPredictor

    def scores(self, fitted: dict[str, tf.Tensor], state: State) -> tf.Tensor:
        """Scores `[batch]` of one batch; traceable."""
        raise NotImplementedError

    def apply(self, fitted: dict[str, tf.Tensor], state: State) -> None:
        state.outputs[self.name] = self.scores(fitted, state)
