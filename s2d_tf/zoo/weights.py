"""Weights as files: plain arrays by name, all checked before the first is assigned.

A `.safetensors` file holds one array for each weight, under the path that Keras gives it
(`stem/kernel`, `block1_unit1_bn1/gamma`, `head/bias`), and as metadata a sha256 over all of them.
So other implementations of the same network can read it, and nothing in it depends on how Keras
arranges its own files. State that is not a weight (seed generators, metrics) is not in it.
"""

from __future__ import annotations

import hashlib
import math
from typing import TYPE_CHECKING

import numpy as np

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError

if TYPE_CHECKING:
    import keras

_ADVICE = "Get the file again, or train the model again."


class WeightsError(UserError):
    """A weights file is missing, damaged, or not that of the model."""


def by_name(model: keras.Model) -> dict:
    """The weights of a built model, `{name: variable}`.

    Names do not depend on what was built before in the same process: a weight of the model itself
    is named without the model's (counted) name, and our layers have names of their own.
    """
    named = {v.path.removeprefix(f"{model.name}/"): v for v in model.weights}
    WeightsError.unless(
        named and len(named) == len(model.weights),
        f"{model.name}: expected a built model whose weights have different names, received "
        f"{len(model.weights)} weights of {len(named)} names. Name the layers.",
    )
    return named


def save(model: keras.Model, path: PathLike, half: bool = False) -> None:
    """Writes the weights of a model, whole or not at all.

    Args:
        model: a built Keras model.
        path: the file, usually `*.safetensors`.
        half: store numbers in half precision.
    """
    arrays = {name: variable.numpy() for name, variable in by_name(model).items()}
    if half:
        with np.errstate(over="ignore"):
            arrays = {
                name: array.astype(np.float16) if array.dtype.kind == "f" else array
                for name, array in arrays.items()
            }
    _check_finite(arrays, path, "Half precision cannot hold it." if half else "Nothing is written.")
    files.write_bytes(path, files.pack_arrays(arrays, {"sha256": _digest(arrays)}))


def load(model: keras.Model, path: PathLike, sha256: str | None = None) -> None:
    """Gives a built model the weights of a file: all of them or, with an error, none.

    Args:
        model: a built Keras model.
        path: a file that `save` wrote.
        sha256: expected hash of the file, if known.
    """
    assign(model, files.read_bytes(path, size_limit(model), WeightsError), path, sha256)


def size_limit(model: keras.Model) -> int:
    """The most bytes that a weights file of this model can have."""
    numbers = sum(np.dtype(v.dtype).itemsize * math.prod(v.shape) for v in model.weights)
    return numbers + 2**12 + 2**9 * len(model.weights)


def assign(model: keras.Model, data: bytes, where: PathLike, sha256: str | None = None) -> None:
    """Gives a built model the arrays in the bytes of a weights file: all or, with an error, none.

    Args:
        model: a built Keras model.
        data: the bytes, at most `size_limit(model)`.
        where: what to call the file in errors.
        sha256: expected hash of `data`; without one, the digest in the file is checked.
    """
    files.check_sha256(data, sha256, where, WeightsError)
    variables = by_name(model)
    try:
        arrays, metadata = files.unpack_arrays(data)
        files.check_arrays(arrays, variables, half=True)
        files.ArraysError.unless(
            sha256 or metadata == {"sha256": _digest(arrays)},
            f"expected the digest of it all, received {metadata!r:.120}",
        )
    except files.ArraysError as error:
        raise WeightsError(
            f"{where}: expected a weights file of this model, received something else: {error}. "
            f"{_ADVICE}"
        ) from None
    _check_finite(arrays, where, _ADVICE)
    for name, variable in variables.items():
        variable.assign(arrays[name].astype(variable.dtype, copy=False))


def _digest(arrays):
    """SHA-256 over names, types, shapes and numbers, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def _check_finite(arrays, path, advice):
    for name, array in arrays.items():
        WeightsError.unless(
            array.dtype.kind != "f" or np.isfinite(array).all(),
            f"{path}, {name}: expected finite numbers, received NaN or infinity. {advice}",
        )
