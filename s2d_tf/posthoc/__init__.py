"""What is fitted on a trained model: calibration, detectors, Laplace, sets, abstention.

`step.fit(model, data)` gives a predictor that wraps the model. Steps stack, and each adds its
output to `predict_uncertainty` under its own name. Predicting needs neither SciPy nor scikit-learn.
"""

# ruff: noqa: I001  Detectors are in tables in the order in which they are defined.
import s2d_tf._backend  # noqa: F401
from s2d_tf.posthoc.predictor import (
    Outputs,
    State,
    StepPredictor,
    chain,
    collect,
    linear_head,
    root,
)
from s2d_tf.posthoc.step import Detector, Step, detectors, step_class, steps
from s2d_tf.posthoc.prediction_scores import GEN, MSP, Energy, MaxLogit, Uncertainty
from s2d_tf.posthoc.feature_scores import ASH, FDBD, KNN, SCALE, ReAct, ViM
from s2d_tf.posthoc.gaussians import FeatureDensity, Mahalanobis, RelativeMahalanobis
from s2d_tf.posthoc.calibration import (
    DirichletCalibration,
    DistanceAwareness,
    TemperatureScaling,
    VectorScaling,
)
from s2d_tf.posthoc.laplace import LastLayerLaplace
from s2d_tf.posthoc.saving import StepError, load, model_sha256, parse, save
from s2d_tf.posthoc.sets_and_abstention import (
    ConformalSets,
    SelectiveClassifier,
    choose_threshold,
)

__all__ = [
    "ASH",
    "FDBD",
    "GEN",
    "KNN",
    "MSP",
    "SCALE",
    "ConformalSets",
    "Detector",
    "DirichletCalibration",
    "DistanceAwareness",
    "Energy",
    "FeatureDensity",
    "LastLayerLaplace",
    "Mahalanobis",
    "MaxLogit",
    "Outputs",
    "ReAct",
    "RelativeMahalanobis",
    "SelectiveClassifier",
    "State",
    "Step",
    "StepError",
    "StepPredictor",
    "TemperatureScaling",
    "Uncertainty",
    "VectorScaling",
    "ViM",
    "chain",
    "choose_threshold",
    "collect",
    "detectors",
    "linear_head",
    "load",
    "model_sha256",
    "parse",
    "root",
    "save",
    "step_class",
    "steps",
]
