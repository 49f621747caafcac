"""Where the folders are that a checkout has beside this package and a wheel inside it."""

import importlib.util
import pathlib
import sys

_PACKAGE = pathlib.Path(__file__).resolve().parent


def zoo_directory() -> pathlib.Path:
    """The folder of the zoo's data (`architectures/`, `methods/`, ...)."""
    return _find("zoo_data", "zoo", "architectures")


def trainers_directory() -> pathlib.Path:
    """The folder of the programs behind `s2d`."""
    return _find("trainers", "trainers", "__init__.py")


def register_trainers() -> None:
    """Makes `trainers/` importable as `s2d_tf.trainers` in a checkout that is not installed."""
    if importlib.util.find_spec("s2d_tf.trainers") is None:
        place = trainers_directory() / "__init__.py"
        spec = importlib.util.spec_from_file_location("s2d_tf.trainers", place)
        assert spec is not None  # for type checkers: a `.py` has a loader
        assert spec.loader is not None
        module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


def _find(inside, beside, content):
    # The name alone is not enough: site-packages may hold somebody else's `zoo`.
    for folder in (_PACKAGE / inside, _PACKAGE.parent / beside):
        if (folder / content).exists():
            return folder
    raise FileNotFoundError(
        f"{_PACKAGE / inside}: expected a folder with {content}, received none. Reinstall s2d_tf."
    )
