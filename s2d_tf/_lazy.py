"""Packages whose names load on first use."""

from __future__ import annotations

import ast
import importlib
import pathlib
import sys
from collections.abc import Callable
from typing import Any


def attach_stub(
    package: str, file: str
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """What a package's `__init__` needs to offer names that it has not imported.

    They are those that the package's `__init__.pyi` imports. Type checkers and editors read that
    file in place of `__init__.py`, so they see the types, and the names are listed once.

    Args:
        package: the package's `__name__`.
        file: the package's `__file__`.

    Returns:
        `__getattr__`, `__dir__` and `__all__` of the package.
    """
    homes: dict[str, str] = {}
    for node in ast.parse(pathlib.Path(file).with_suffix(".pyi").read_bytes()).body:
        if isinstance(node, ast.ImportFrom):
            home = (node.module or "").removeprefix(package).removeprefix(".")
            homes |= {alias.name: home for alias in node.names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = importlib.import_module(f"{package}.{homes[name] or name}")
        if homes[name]:
            value = getattr(value, name)
        # Importing a module `x` sets the attribute `x` of its package, also where `x` is to mean
        # a function in it.
        setattr(sys.modules[package], name, value)
        return value

    names = sorted(homes)
    return __getattr__, lambda: names, names
