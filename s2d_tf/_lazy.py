"""Packages whose names load on first use."""

import importlib
import sys


def attach(package, homes=None, modules=()):
    """What a package's `__init__` needs to offer names that it has not imported.

    Args:
        package: the package's `__name__`.
        homes: `{name: module of the package that defines it}`.
        modules: modules of the package that are themselves offered.

    Returns:
        `__getattr__`, `__dir__` and `__all__` of the package.
    """
    homes = homes or {}
    offered = sorted([*homes, *modules])

    def __getattr__(name):
        if name in homes:
            value = getattr(importlib.import_module(f"{package}.{homes[name]}"), name)
            setattr(sys.modules[package], name, value)
            return value
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    def __dir__():
        return sorted({*vars(sys.modules[package]), *offered})

    return __getattr__, __dir__, offered
