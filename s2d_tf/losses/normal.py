"""Losses of a student that predicts a diagonal Gaussian over log-concentrations (H2D-Gauss)."""

import math

import keras
import tensorflow as tf

from s2d_tf import numerics
from s2d_tf.losses.base import DistillationLoss

MAX_SCALE = 1e3
"""Beyond the range of log-concentrations (+-20): only keeps a wild prediction finite."""


def scale_from_log(log_scale):
    """The deviation that a student predicts; it never falls below the proxy's floor."""
    return tf.exp(tf.clip_by_value(log_scale, math.log(numerics.MIN_SCALE), math.log(MAX_SCALE)))


class _NormalLoss(DistillationLoss):
    """Targets: member log-concentrations `[batch, members, classes]`.

    Predictions: `[batch, 2 * classes]`, the Gaussian's means followed by its log-scales.
    """

    student = "gaussian"
    needs_concentrations = True

    def call(self, member_logits, student):
        loc, log_scale = tf.split(student, 2, axis=-1)
        return self.divergence(member_logits, loc, scale_from_log(log_scale))


@keras.saving.register_keras_serializable(package="s2d_tf")
class NormalKLDivergence(_NormalLoss):
    """KL from the proxy Gaussian of the members to the student's (appendix A.1 of the paper)."""

    default_name = "normal_kl_divergence"

    def divergence(self, member_logits, loc, scale):
        proxy_loc, proxy_scale = numerics.fit_normal(member_logits)
        return numerics.normal_kl_divergence(proxy_loc, proxy_scale, loc, scale)


@keras.saving.register_keras_serializable(package="s2d_tf")
class NormalNegativeLogLikelihood(_NormalLoss):
    """Mean negative log-likelihood of the members' log-concentrations: no proxy."""

    default_name = "normal_negative_log_likelihood"

    def divergence(self, member_logits, loc, scale):
        return numerics.normal_negative_log_likelihood(member_logits, loc, scale)
