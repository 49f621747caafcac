"""JSON and dataclasses from outside: every name and type is checked."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Values of a JSON text; rejects repeated keys and numbers that are not finite.

    Raises:
        ValueError, RecursionError: where the text is not such JSON.

    Example:

    >>> files.parse_json('{"seed": 0}')
    {'seed': 0}
    """

    def unique(pairs):
        values = dict(pairs)
        if len(values) != len(pairs):
            raise ValueError("expected each key once, received one twice")
        return values

    def finite(text):
        if not math.isfinite(float(text)):
            raise ValueError(f"expected a finite number, received {text:.40}")
        return float(text)

    text = text.decode("utf-8") if isinstance(text, bytes) else text
    return json.loads(text, object_pairs_hook=unique, parse_float=finite, parse_constant=finite)


def read_record(kind: Any, value: Any, where: str, error: type[Exception] = ValueError) -> Any:
    """A dataclass from plain values, with the dataclasses and tuples of them that it holds.

    Args:
        kind: a dataclass, `tuple[kind, ...]`, `kind | None`, or a plain type. Where it takes a
            float, an int becomes one.
        value: what JSON or TOML holds.
        where: what to call it in errors.
        error: class of the error to raise for unknown, missing and mistyped values.

    Example:

    >>> import dataclasses
    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     name: str = ""
    >>> files.read_record(Point, {"x": 3}, "point")
    Point(x=3.0, name='')
    """
    options = typing.get_args(kind) or (kind,)
    if typing.get_origin(kind) is tuple:
        if not isinstance(value, (list, tuple)):
            raise error(f"{where}: expected a list, received {value!r:.80}. Correct the value.")
        return tuple(read_record(options[0], item, f"{where}, item", error) for item in value)
    nested = [option for option in options if dataclasses.is_dataclass(option)]
    if nested and not (value is None and type(None) in options):
        return _read_fields(nested[0], value, where, error)
    value = tuple(value) if isinstance(value, list) else value
    if float in options and type(value) is int:
        return float(value)
    if not isinstance(value, kind) or (isinstance(value, bool) and bool not in options):
        name = getattr(kind, "__name__", str(kind))
        raise error(f"{where}: expected {name}, received {value!r:.80}. Correct the value.")
    return value


def _read_fields(kind, values, where, error):
    if not isinstance(values, dict):
        raise error(
            f"{where}: expected names and values, received {values!r:.80}. Correct the value."
        )
    fields = {field.name: field for field in dataclasses.fields(kind)}
    required = {name for name, field in fields.items() if field.default is dataclasses.MISSING}
    unknown, missing = sorted(set(values) - set(fields)), sorted(required - set(values))
    if unknown or missing:
        what = f"unknown {unknown!r:.80}" if unknown else f"missing {missing}"
        raise error(
            f"{where}: expected the names {sorted(fields)}, received {what}. Correct the names."
        )
    kinds = typing.get_type_hints(kind)
    read = {
        name: read_record(kinds[name], value, f"{where}, {name}", error)
        for name, value in values.items()
    }
    return kind(**read)
