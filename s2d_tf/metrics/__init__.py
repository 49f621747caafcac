"""How good the predictions are: classification, calibration, detection, selective prediction.

Plain functions take NumPy arrays (or anything `np.asarray` takes), work in float64, reject NaN and
infinities with one line that says what to do, and return Python floats or NumPy arrays. Fractions,
never percentages. Names load on first use: TensorFlow only for the Keras metric
`ExpectedCalibrationError`, scikit-learn only for detection.
"""

from s2d_tf import _lazy

_HOMES = {
    "ExpectedCalibrationError": "keras_metrics",
    "ReliabilityCurve": "calibration",
    "RiskCoverageCurve": "selective",
    "SizeStratifiedCoverage": "sets",
    "accuracy": "classification",
    "adaptive_calibration_error": "calibration",
    "area_under_generalized_risk_coverage": "selective",
    "area_under_risk_coverage": "selective",
    "area_under_scod_risk_coverage": "scod",
    "aupr": "detection",
    "auroc": "detection",
    "brier_score": "classification",
    "conformal_coverage_interval": "sets",
    "expected_calibration_error": "calibration",
    "fit_temperature": "calibration",
    "fpr_at_95_recall": "detection",
    "mean_interval": "means",
    "mean_set_size": "sets",
    "negative_log_likelihood": "classification",
    "negative_log_likelihood_from_log_probs": "classification",
    "precision_recall_curve": "detection",
    "prediction_rejection_ratio": "selective",
    "rank_correlation": "correlation",
    "reliability_curve": "calibration",
    "risk_after_rejection": "selective",
    "risk_coverage_curve": "selective",
    "roc_curve": "detection",
    "scale_log_probs": "calibration",
    "scod_risk_coverage_curve": "scod",
    "set_coverage": "sets",
    "set_coverage_interval": "sets",
    "size_stratified_coverage": "sets",
}

__getattr__, __dir__, __all__ = _lazy.attach(__name__, _HOMES)
