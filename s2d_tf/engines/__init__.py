"""How predictions are computed: simplified graphs, and the runtime that is fastest here."""

import s2d_tf._backend  # noqa: F401
from s2d_tf.engines.engine import NAMES, Engine, check, use
from s2d_tf.engines.freezing import freeze

__all__ = ["NAMES", "Engine", "check", "freeze", "use"]
