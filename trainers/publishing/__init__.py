"""From a finished run to an entry of the zoo: weights, golden predictions, record and card."""

from .hub import publish_to, upload
from .provenance import PublishError
from .publication import fit_step, publish

__all__ = ["PublishError", "fit_step", "publish", "publish_to", "upload"]
