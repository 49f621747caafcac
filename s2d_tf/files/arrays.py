"""Named arrays as the bytes of a safetensors file.

The `safetensors` package checks that the arrays cover the file exactly and without overlap. It
accepts a header of up to 100 MB and lets the last of two equal names win; this module does not.
"""

from __future__ import annotations

import numpy as np
import safetensors
import safetensors.numpy

from s2d_tf import files


class ArraysError(ValueError):
    """Bytes are not those of a safetensors file with the expected arrays."""


def pack(arrays: dict, metadata: dict | None = None) -> bytes:
    """Bytes of a safetensors file; the same arrays always give the same bytes.

    Args:
        arrays: NumPy arrays by name.
        metadata: at most one text by name. With more, safetensors would order them at random.
    """
    # The package reads the memory of an array without a look at its strides.
    plain = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    return safetensors.numpy.save(plain, metadata)


def unpack(data: bytes, max_header_bytes: int = 2**24) -> tuple[dict, dict]:
    """The arrays and the metadata in the bytes of a safetensors file."""
    size = int.from_bytes(data[:8], "little")
    if len(data) < 8 or size > max_header_bytes:
        raise ArraysError(
            f"expected a header of at most {max_header_bytes:,} bytes, received {size:,} "
            f"in a file of {len(data):,}"
        )
    try:
        arrays = safetensors.numpy.load(data)
        header = files.parse_json(data[8 : 8 + size])
    # KeyError: a type of numbers that NumPy does not have.
    except (safetensors.SafetensorError, KeyError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ArraysError(f"expected a safetensors file, received {reason:.200}") from None
    return arrays, header.get("__metadata__") or {}


def check_fits(arrays: dict, variables: dict, half: bool = False) -> None:
    """Rejects arrays that have other names, shapes or types than the variables.

    Args:
        arrays: NumPy arrays by name.
        variables: Keras variables by name.
        half: whether float16 may stand for float32.
    """
    for name in sorted(arrays.keys() ^ variables.keys()):
        wanted, found = ("no", "this") if name in arrays else ("an", "none")
        raise ArraysError(f"expected {wanted} array {name[:80]!r}, received {found}")
    for name, variable in variables.items():
        shape, held = tuple(variable.shape), arrays[name]
        # Not the type of its value: among several workers, to read that can need all of them.
        dtype = str(getattr(variable, "dtype", held.dtype))
        dtypes = ("float32", "float16") if half and dtype == "float32" else (dtype,)
        if held.dtype.name not in dtypes or held.shape != shape:
            raise ArraysError(
                f"{name}: expected {' or '.join(dtypes)} of shape {shape}, received "
                f"{held.dtype.name} of shape {held.shape}"
            )
