"""What is fitted on a trained model: calibration, detectors, Laplace, sets, abstention.

`step.fit(model, data)` gives a predictor that wraps the model. Steps stack, and each adds its
output to `predict_uncertainty` under its own name. Predicting needs neither SciPy nor scikit-learn.
"""

from s2d_tf.posthoc.calibration import DirichletCalibration, TemperatureScaling, VectorScaling
from s2d_tf.posthoc.conformal import ConformalSets
from s2d_tf.posthoc.gaussians import FeatureDensity, Mahalanobis, RelativeMahalanobis
from s2d_tf.posthoc.head_scores import FDBD, ViM
from s2d_tf.posthoc.laplace import LastLayerLaplace
from s2d_tf.posthoc.names import DETECTORS, STEPS, step_class
from s2d_tf.posthoc.neighbors import KNN
from s2d_tf.posthoc.outputs import Outputs
from s2d_tf.posthoc.prediction_scores import GEN, MSP, Energy, MaxLogit, Uncertainty
from s2d_tf.posthoc.predictor import StepPredictor
from s2d_tf.posthoc.saving import StepError, load, model_sha256, save
from s2d_tf.posthoc.selective import SelectiveClassifier, choose_threshold
from s2d_tf.posthoc.shaping import ASH, SCALE, ReAct
from s2d_tf.posthoc.source import collect
from s2d_tf.posthoc.step import Step

__all__ = [
    "ASH",
    "DETECTORS",
    "FDBD",
    "GEN",
    "KNN",
    "MSP",
    "SCALE",
    "STEPS",
    "ConformalSets",
    "DirichletCalibration",
    "Energy",
    "FeatureDensity",
    "LastLayerLaplace",
    "Mahalanobis",
    "MaxLogit",
    "Outputs",
    "ReAct",
    "RelativeMahalanobis",
    "SelectiveClassifier",
    "Step",
    "StepError",
    "StepPredictor",
    "TemperatureScaling",
    "Uncertainty",
    "VectorScaling",
    "ViM",
    "choose_threshold",
    "collect",
    "load",
    "model_sha256",
    "save",
    "step_class",
]
