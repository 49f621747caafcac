"""Where the folders are that a checkout has beside this package and a wheel inside it."""

import importlib.util
import pathlib
import sys
from types import ModuleType

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
        load_module("s2d_tf.trainers", trainers_directory() / "__init__.py")


def load_module(name: str, path: pathlib.Path) -> ModuleType:
    """Imports a file under a name, also if that was imported before."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None  # for type checkers: a `.py` has a loader
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _find(inside, beside, content):
    # The name alone is not enough: site-packages may hold somebody else's `zoo`.
    for folder in (_PACKAGE / inside, _PACKAGE.parent / beside):
        if (folder / content).exists():
            return folder
    raise FileNotFoundError(
        f"{_PACKAGE / inside}: expected a folder with {content}, received none. Reinstall s2d_tf."
    )
