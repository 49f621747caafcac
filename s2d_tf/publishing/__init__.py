"""From a finished run to an entry of the zoo: weights, golden predictions, record and card."""

from s2d_tf.publishing.checks import PublishError
from s2d_tf.publishing.hub import publish_to, upload
from s2d_tf.publishing.publication import publish
from s2d_tf.publishing.steps import fit_step

__all__ = ["PublishError", "fit_step", "publish", "publish_to", "upload"]
