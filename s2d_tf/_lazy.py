"""Packages whose names load on first use."""

from __future__ import annotations

import ast
import importlib
import pathlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_Attached = tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]


def attach(
    package: str, homes: Mapping[str, str] | None = None, modules: Sequence[str] = ()
) -> _Attached:
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

    def __getattr__(name: str) -> Any:
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


def attach_stub(package: str, file: str) -> _Attached:
    """`attach` for the names that the package's `__init__.pyi` imports.

    Type checkers and editors read that file in place of `__init__.py`, so they see the types of
    names that are not imported yet, and the names are listed once.

    Args:
        package: the package's `__name__`.
        file: the package's `__file__`.
    """
    homes: dict[str, str] = {}
    modules: list[str] = []
    stub = ast.parse(pathlib.Path(file).with_suffix(".pyi").read_bytes())
    for node in stub.body:
        assert isinstance(node, ast.ImportFrom)
        home = (node.module or "").removeprefix(package).removeprefix(".")
        for alias in node.names:
            if home:
                homes[alias.name] = home
            else:
                modules.append(alias.name)
    return attach(package, homes, modules)
