"""Where the parts of the project lie that are not inside this folder in a checkout.

A wheel carries `zoo/` as `s2d_tf/zoo_data` and `trainers/` as `s2d_tf/trainers`; in a checkout, an
editable install or a Bazel tree both are beside `s2d_tf`.
"""

import pathlib

_PACKAGE = pathlib.Path(__file__).resolve().parent


def zoo_directory():
    """Returns the pathlib.Path of the zoo's data (`architectures/`, `methods/`, ...)."""
    candidates = (_PACKAGE / "zoo_data", _PACKAGE.parent / "zoo")
    for folder in candidates:
        # A folder of the name alone is not enough: site-packages may hold somebody else's `zoo`.
        if (folder / "architectures").is_dir():
            return folder
    raise FileNotFoundError(
        "the zoo's data was expected in "
        + " or ".join(str(folder) for folder in candidates)
        + ": install s2d_tf again"
    )


def trainers_directory():
    """Returns the folder that holds the trainers, or None where there is none."""
    for folder in (_PACKAGE / "trainers", _PACKAGE.parent / "trainers"):
        if (folder / "__init__.py").is_file():
            return folder
    return None
