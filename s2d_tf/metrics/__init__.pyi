from s2d_tf.metrics.classification import ReliabilityCurve as ReliabilityCurve
from s2d_tf.metrics.classification import adaptive_calibration_error as adaptive_calibration_error
from s2d_tf.metrics.classification import expected_calibration_error as expected_calibration_error
from s2d_tf.metrics.classification import fit_temperature as fit_temperature
from s2d_tf.metrics.classification import reliability_curve as reliability_curve
from s2d_tf.metrics.classification import scale_log_probs as scale_log_probs
from s2d_tf.metrics.classification import accuracy as accuracy
from s2d_tf.metrics.classification import brier_score as brier_score
from s2d_tf.metrics.classification import negative_log_likelihood as negative_log_likelihood
from s2d_tf.metrics.classification import (
    negative_log_likelihood_from_log_probs as negative_log_likelihood_from_log_probs,
)
from s2d_tf.metrics.statistics import rank_correlation as rank_correlation
from s2d_tf.metrics.detection import aupr as aupr
from s2d_tf.metrics.detection import auroc as auroc
from s2d_tf.metrics.detection import fpr_at_95_recall as fpr_at_95_recall
from s2d_tf.metrics.detection import roc_curve as roc_curve
from s2d_tf.metrics.statistics import mean_interval as mean_interval
from s2d_tf.metrics.decisions import RiskCoverageCurve as RiskCoverageCurve
from s2d_tf.metrics.decisions import (
    area_under_generalized_risk_coverage as area_under_generalized_risk_coverage,
)
from s2d_tf.metrics.decisions import area_under_risk_coverage as area_under_risk_coverage
from s2d_tf.metrics.decisions import risk_after_rejection as risk_after_rejection
from s2d_tf.metrics.decisions import risk_coverage_curve as risk_coverage_curve
from s2d_tf.metrics.decisions import mean_set_size as mean_set_size
from s2d_tf.metrics.decisions import set_coverage as set_coverage
from s2d_tf.metrics.classification import calibration_gaps as calibration_gaps
from s2d_tf.metrics.detection import Ranking as Ranking
