"""Pure tensor functions: special functions, Dirichlet and normal divergences and fits."""

from s2d_tf.numerics.dirichlet_fit import (
    FIT_METHODS,
    MAX_TOTAL_CONCENTRATION,
    DirichletFit,
    fit_dirichlet,
    fit_dirichlet_with_info,
    merge_dirichlets,
)
from s2d_tf.numerics.divergences import (
    LOG_CONCENTRATION_LIMIT,
    MIN_SCALE,
    concentrations_from_logits,
    dirichlet_fisher_distance,
    dirichlet_kl_divergence,
    dirichlet_negative_log_likelihood,
    fit_normal,
    normal_kl_divergence,
)
from s2d_tf.numerics.special import digamma, digamma_and_trigamma, digamma_minus_log, trigamma

__all__ = [
    "FIT_METHODS",
    "LOG_CONCENTRATION_LIMIT",
    "MAX_TOTAL_CONCENTRATION",
    "MIN_SCALE",
    "DirichletFit",
    "concentrations_from_logits",
    "digamma",
    "digamma_and_trigamma",
    "digamma_minus_log",
    "dirichlet_fisher_distance",
    "dirichlet_kl_divergence",
    "dirichlet_negative_log_likelihood",
    "fit_dirichlet",
    "fit_dirichlet_with_info",
    "fit_normal",
    "merge_dirichlets",
    "normal_kl_divergence",
    "trigamma",
]
