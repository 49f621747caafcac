"""Before a submodule is loaded: the Keras backend check, and finding `s2d_tf.trainers`.

Both hang on one import hook instead of a call in every submodule, so that none can be forgotten and
`from s2d_tf.layers import ...` is checked just as `s2d_tf.layers` is. Nothing here imports Keras or
TensorFlow.
"""

import importlib.util
import json
import os
import sys

from s2d_tf import _paths

# What imports Keras, as names within the package; a name stands for all below it. The rest runs on
# TensorFlow, NumPy or nothing, and is of use (`s2d list`, `metrics`) whatever Keras is set to.
# tests/packaging/imports_test.py compares this with the sources.
NEEDS_KERAS = frozenset(
    {
        "backbones",
        "layers",
        "losses",
        "metrics.keras_metrics",
        "models",
        "optimizers",
        "training.callbacks",
        "training.loop",
        "training.schedules",
    }
)


class KerasBackendError(ImportError):
    """Keras runs, or is set to run, on something other than TensorFlow."""


def keras_backend():
    """Returns the backend that Keras runs or will run on, and the place where it was chosen.

    Follows the order in which Keras itself decides: a running Keras cannot be changed any more, the
    environment variable comes before the file, and without both the backend is TensorFlow.
    """
    keras = sys.modules.get("keras")
    if keras is not None and hasattr(keras, "config"):
        return keras.config.backend(), "in the Keras that is already imported"
    if os.environ.get("KERAS_BACKEND"):
        return os.environ["KERAS_BACKEND"], "by KERAS_BACKEND in the environment"
    home = os.environ.get("KERAS_HOME") or os.path.join(os.path.expanduser("~"), ".keras")
    path = os.path.join(home, "keras.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)["backend"], f"by {path}"
    except (OSError, ValueError, KeyError, TypeError):
        # No file, or one that Keras ignores or reports by itself.
        return "tensorflow", "by default"


def require_tensorflow_backend():
    """Raises KerasBackendError unless Keras runs, or will run, on TensorFlow."""
    backend, where = keras_backend()
    if backend != "tensorflow":
        raise KerasBackendError(
            f'expected the Keras backend "tensorflow", received "{backend}" (chosen {where}): '
            "set KERAS_BACKEND=tensorflow in the environment before Python starts"
        )


class _SubmoduleFinder:
    """Looks at every first import of `s2d_tf.<name>`; answers only for `trainers` in a checkout."""

    @staticmethod
    def find_spec(fullname, path=None, target=None):
        package, _, name = fullname.partition(".")
        if package != "s2d_tf":
            return None
        if name in NEEDS_KERAS or name.partition(".")[0] in NEEDS_KERAS:
            require_tensorflow_backend()
        elif name == "trainers":
            folder = _paths.trainers_directory()
            if folder is not None:
                return importlib.util.spec_from_file_location(
                    fullname, folder / "__init__.py", submodule_search_locations=[str(folder)]
                )
        return None


def install():
    """Puts the hook in place, once."""
    if not any(finder is _SubmoduleFinder for finder in sys.meta_path):
        sys.meta_path.insert(0, _SubmoduleFinder)
