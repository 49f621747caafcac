"""Requires the TensorFlow backend of Keras; import this before Keras.

Whatever imports Keras imports this module first, itself or in the `__init__` of its package, which
tests/packaging/imports_test.py checks. The rest of the package (`s2d list`, `metrics`) runs
whatever the backend.
"""

import json
import os
import pathlib
import sys

from s2d_tf.errors import UserError


class KerasBackendError(UserError, ImportError):
    """Keras runs, or is set to run, on something other than TensorFlow."""


def keras_backend() -> tuple[str, str]:
    """Returns the backend that Keras uses or will use, and where it was chosen.

    Keras decides in this order: a running Keras cannot be changed any more, the environment
    variable comes before the file, and the default is TensorFlow. Importing Keras to find out
    would fail if the other backend is not installed.
    """
    keras = sys.modules.get("keras")
    if keras is not None and hasattr(keras, "config"):
        return keras.config.backend(), "in the Keras that is already imported"
    if os.environ.get("KERAS_BACKEND"):
        return os.environ["KERAS_BACKEND"], "by KERAS_BACKEND in the environment"
    home = os.environ.get("KERAS_HOME") or pathlib.Path.home() / ".keras"
    path = pathlib.Path(home, "keras.json")
    try:
        return json.loads(path.read_text(encoding="utf-8"))["backend"], f"by {path}"
    except (OSError, ValueError, KeyError, TypeError):
        # No file, or one that Keras ignores or reports by itself.
        return "tensorflow", "by default"


def require_tensorflow() -> None:
    """Raises `KerasBackendError` unless Keras runs, or will run, on TensorFlow."""
    backend, where = keras_backend()
    KerasBackendError.unless(
        backend == "tensorflow",
        f"Keras backend: expected 'tensorflow', received {backend!r} (chosen {where}). Set "
        "KERAS_BACKEND=tensorflow in the environment before Python starts.",
    )


require_tensorflow()
