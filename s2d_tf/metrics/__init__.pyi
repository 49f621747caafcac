from s2d_tf.metrics.calibration import (
    ReliabilityCurve as ReliabilityCurve,
    adaptive_calibration_error as adaptive_calibration_error,
    expected_calibration_error as expected_calibration_error,
    fit_temperature as fit_temperature,
    reliability_curve as reliability_curve,
    scale_log_probs as scale_log_probs,
)
from s2d_tf.metrics.classification import (
    accuracy as accuracy,
    brier_score as brier_score,
    negative_log_likelihood as negative_log_likelihood,
    negative_log_likelihood_from_log_probs as negative_log_likelihood_from_log_probs,
)
from s2d_tf.metrics.correlation import rank_correlation as rank_correlation
from s2d_tf.metrics.detection import (
    aupr as aupr,
    auroc as auroc,
    fpr_at_95_recall as fpr_at_95_recall,
    precision_recall_curve as precision_recall_curve,
    roc_curve as roc_curve,
)
from s2d_tf.metrics.keras_metrics import ExpectedCalibrationError as ExpectedCalibrationError
from s2d_tf.metrics.means import mean_interval as mean_interval
from s2d_tf.metrics.scod import (
    area_under_scod_risk_coverage as area_under_scod_risk_coverage,
    scod_risk_coverage_curve as scod_risk_coverage_curve,
)
from s2d_tf.metrics.selective import (
    RiskCoverageCurve as RiskCoverageCurve,
    area_under_generalized_risk_coverage as area_under_generalized_risk_coverage,
    area_under_risk_coverage as area_under_risk_coverage,
    prediction_rejection_ratio as prediction_rejection_ratio,
    risk_after_rejection as risk_after_rejection,
    risk_coverage_curve as risk_coverage_curve,
)
from s2d_tf.metrics.sets import (
    SizeStratifiedCoverage as SizeStratifiedCoverage,
    conformal_coverage_interval as conformal_coverage_interval,
    mean_set_size as mean_set_size,
    set_coverage as set_coverage,
    set_coverage_interval as set_coverage_interval,
    size_stratified_coverage as size_stratified_coverage,
)
