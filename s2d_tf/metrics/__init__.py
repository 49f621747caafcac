"""How good the predictions are: classification, calibration, detection, selective prediction.

Plain functions take NumPy arrays (or anything `np.asarray` takes), work in float64, refuse NaN and
infinities with one line that says what to do, and return Python floats or NumPy arrays. Fractions,
never per cent. TensorFlow is imported only when the Keras metric `ExpectedCalibrationError` is
touched.
"""

from s2d_tf.metrics.calibration import (
    ReliabilityCurve,
    adaptive_calibration_error,
    expected_calibration_error,
    reliability_curve,
)
from s2d_tf.metrics.classification import (
    accuracy,
    brier_score,
    negative_log_likelihood,
    negative_log_likelihood_from_log_probs,
)
from s2d_tf.metrics.detection import (
    aupr,
    auroc,
    fpr_at_95_recall,
    precision_recall_curve,
    roc_curve,
)
from s2d_tf.metrics.selective import (
    RiskCoverageCurve,
    area_under_generalized_risk_coverage,
    area_under_risk_coverage,
    prediction_rejection_ratio,
    risk_after_rejection,
    risk_coverage_curve,
)
from s2d_tf.metrics.sets import (
    SizeStratifiedCoverage,
    conformal_coverage_interval,
    mean_set_size,
    set_coverage,
    set_coverage_interval,
    size_stratified_coverage,
)
from s2d_tf.metrics.temperature import fit_temperature, scale_log_probs

__all__ = [
    "ExpectedCalibrationError",
    "ReliabilityCurve",
    "RiskCoverageCurve",
    "SizeStratifiedCoverage",
    "accuracy",
    "adaptive_calibration_error",
    "area_under_generalized_risk_coverage",
    "area_under_risk_coverage",
    "aupr",
    "auroc",
    "brier_score",
    "conformal_coverage_interval",
    "expected_calibration_error",
    "fit_temperature",
    "fpr_at_95_recall",
    "mean_set_size",
    "negative_log_likelihood",
    "negative_log_likelihood_from_log_probs",
    "precision_recall_curve",
    "prediction_rejection_ratio",
    "reliability_curve",
    "risk_after_rejection",
    "risk_coverage_curve",
    "roc_curve",
    "scale_log_probs",
    "set_coverage",
    "set_coverage_interval",
    "size_stratified_coverage",
]


def __getattr__(name):
    if name == "ExpectedCalibrationError":
        from s2d_tf.metrics.keras_metrics import ExpectedCalibrationError

        return ExpectedCalibrationError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
