"""Data from outside, checked: bytes within limits, JSON, dataclasses, arrays. No TensorFlow.

Arrays are those of a safetensors file. The `safetensors` package checks that they cover the file
exactly and without overlap. It accepts a header of up to 100 MB and lets the last of two equal
names win; this module does not. It is imported where it is needed: `s2d list` needs none.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import pathlib
import stat
import typing
from typing import Any

from s2d_tf._types import PathLike
from s2d_tf.errors import UserError


def sha256(path: PathLike) -> str:
    """Hex digest of a file.

    Example:

    >>> files.write_text("note.txt", "abc")
    >>> files.sha256("note.txt")[:8]
    'ba7816bf'
    """
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_sha256(
    data: bytes, expected: str | None, where: PathLike, error: type[Exception] = ValueError
) -> None:
    """Rejects data, which errors call `where`, that has another hash than an expected one.

    Example:

    >>> files.write_text("note.txt", "abc")
    >>> files.check_sha256(b"abc", files.sha256("note.txt"), "note.txt")
    """
    received = hashlib.sha256(data).hexdigest()
    if expected not in (None, received):
        raise error(
            f"{where}: expected the sha256 {expected}, received {received}. Get the file again, or "
            "check it and pass its sha256."
        )


def read_json(path: PathLike) -> Any:
    """Values of a JSON file of our own; see `parse_json` for those of others.

    Example:

    >>> files.write_json("facts.json", {"seed": 0})
    >>> files.read_json("facts.json")["seed"]
    0
    """
    return json.loads(pathlib.Path(path).read_text(encoding="utf-8"))


def read_bytes(
    path: PathLike, limit: int, error: type[Exception] = ValueError, follow_links: bool = True
) -> bytes:
    """Bytes of a regular file from outside.

    Args:
        path: the file. Pipes, devices and folders are rejected without waiting for them.
        limit: the most bytes that it may have.
        error: class of the error to raise.
        follow_links: whether `path` may be a symbolic link.

    Example:

    >>> files.write_bytes("note.bin", b"abc")
    >>> files.read_bytes("note.bin", limit=1000)
    b'abc'
    """
    flags = os.O_NONBLOCK | (0 if follow_links else os.O_NOFOLLOW)
    try:
        with open(path, "rb", opener=lambda path, mode: os.open(path, mode | flags)) as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode):
                raise error(
                    f"{path}: expected a regular file, received another kind. Pass that of a file."
                )
            data = file.read(min(limit, facts.st_size) + 1)  # Python allocates all of it first
    except OSError as failure:  # of a link: too many levels of symbolic links
        raise error(
            f"{path}: expected a file, received {failure.strerror!r}. Check the path and its "
            "permissions."
        ) from None
    if len(data) > limit:
        raise error(
            f"{path}: expected at most {limit:,} bytes, received more. Check that it is the right "
            "file."
        )
    return data


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

    text = text.decode("utf-8") if isinstance(text, bytes) else text
    values = json.loads(text, object_pairs_hook=unique)
    json.dumps(values, allow_nan=False)  # raises an error for NaN and infinities, also 1e999
    return values


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
    if nested and not isinstance(value, options):
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
    kinds = typing.get_type_hints(kind)
    required = {f.name for f in dataclasses.fields(kind) if f.default is dataclasses.MISSING}
    unknown, missing = sorted(set(values) - set(kinds)), sorted(required - set(values))
    if unknown or missing:
        what = f"unknown {unknown!r:.80}" if unknown else f"missing {missing}"
        raise error(
            f"{where}: expected the names {sorted(kinds)}, received {what}. Correct the names."
        )
    named = values.items()
    return kind(**{k: read_record(kinds[k], v, f"{where}, {k}", error) for k, v in named})


class ArraysError(UserError):
    """Bytes are not those of a safetensors file with the expected arrays."""


def pack_arrays(arrays: dict, metadata: dict | None = None) -> bytes:
    """Bytes of a safetensors file; the same arrays always give the same bytes.

    Args:
        arrays: NumPy arrays by name.
        metadata: at most one text by name. With more, safetensors would order them at random.

    Example:

    >>> data = files.pack_arrays({"bias": np.zeros(3)}, {"note": "all zero"})
    >>> files.unpack_arrays(data)[1]
    {'note': 'all zero'}
    """
    import numpy as np
    import safetensors.numpy

    # The package reads the memory of an array without a look at its strides.
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(plain, metadata)


def unpack_arrays(data: bytes, max_header_bytes: int = 2**24) -> tuple[dict, dict]:
    """The arrays and the metadata in the bytes of a safetensors file.

    Example:

    >>> arrays, _ = files.unpack_arrays(files.pack_arrays({"bias": np.zeros(3)}))
    >>> arrays["bias"].shape
    (3,)
    """
    import safetensors.numpy

    size = int.from_bytes(data[:8], "little")
    ArraysError.unless(
        len(data) >= 8 and size <= max_header_bytes,
        f"expected a header of at most {max_header_bytes:,} bytes, received {size:,} "
        f"in a file of {len(data):,}",
    )
    try:
        arrays = safetensors.numpy.load(data)
        header = parse_json(data[8 : 8 + size])
    # KeyError: a type of numbers that NumPy does not have.
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ArraysError(f"expected a safetensors file, received {reason:.200}") from None
    return arrays, header.get("__metadata__") or {}


def check_arrays(arrays: dict, variables: dict, half: bool = False) -> None:
    """Rejects arrays that have other names, shapes or types than the variables.

    Args:
        arrays: NumPy arrays by name.
        variables: Keras variables by name.
        half: whether float16 may stand for float32.

    Example:

    >>> files.check_arrays({"bias": np.zeros(3)}, {"bias": np.ones(3)})
    """
    for name in sorted(arrays.keys() ^ variables.keys()):
        wanted, found = ("no", "this") if name in arrays else ("an", "none")
        raise ArraysError(f"expected {wanted} array {name[:80]!r}, received {found}")
    for name, variable in variables.items():
        shape, held = tuple(variable.shape), arrays[name]
        # Not the type of its value: among several workers, to read that can need all of them.
        dtype = str(getattr(variable, "dtype", held.dtype))
        dtypes = ("float32", "float16") if half and dtype == "float32" else (dtype,)
        ArraysError.unless(
            held.dtype.name in dtypes and held.shape == shape,
            f"{name}: expected {' or '.join(dtypes)} of shape {shape}, received "
            f"{held.dtype.name} of shape {held.shape}",
        )
