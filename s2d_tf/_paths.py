"""Where the folders are that a checkout has beside this package and a wheel inside it."""

import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parent


def zoo_directory() -> pathlib.Path:
    """The folder of the zoo's data (`architectures/`, `methods/`, ...)."""
    return _find("zoo_data", "zoo", "architectures")


def trainers_directory() -> pathlib.Path:
    """The folder of the programs behind `s2d`."""
    return _find("trainers", "trainers", "__init__.py")


def _find(inside, beside, content):
    # The name alone is not enough: site-packages may hold somebody else's `zoo`.
    for folder in (_PACKAGE / inside, _PACKAGE.parent / beside):
        if (folder / content).exists():
            return folder
    raise FileNotFoundError(
        f"{_PACKAGE / inside}: expected a folder with {content}, received none. Reinstall s2d_tf."
    )
