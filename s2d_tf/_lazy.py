"""Packages whose names load on first use."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def attach(
    package: str, homes: Mapping[str, str] | None = None, modules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package's `__init__` needs to offer names that it has not imported.

    The same as `lazy_loader.attach`, which is not worth a dependency.

    Args:
        package: the package's `__name__`.
        homes: `{name: module of the package that defines it}`.
        modules: modules of the package that are themselves offered.

    Returns:
        `__getattr__`, `__dir__` and `__all__` of the package.
    """
    homes = homes or {}
    names = sorted({*homes, *modules})

    def __getattr__(name):
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = importlib.import_module(f"{package}.{homes.get(name, name)}")
        if name in homes:
            value = getattr(value, name)
        # Importing a module `x` sets the attribute `x` of its package, also where `x` is to mean
        # a function in it.
        setattr(sys.modules[package], name, value)
        return value

    return __getattr__, lambda: names, names
