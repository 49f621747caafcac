"""Named arrays as the bytes of a safetensors file.

The `safetensors` package checks that the arrays cover the file exactly and without overlap. It
accepts a header of up to 100 MB and lets the last of two equal names win; this module does not.
"""

import numpy as np
import safetensors
import safetensors.numpy

from s2d_tf import files


class ArraysError(ValueError):
    """Bytes are not those of a safetensors file that this package could have written."""


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
