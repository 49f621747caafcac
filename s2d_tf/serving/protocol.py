"""TF Serving's REST protocol: JSON to arrays and back, strictly and within limits.

The size of encoded images is checked before anything is decoded.
"""

import base64
import dataclasses
import json
import math
from typing import Any

import numpy as np

from s2d_tf.errors import UserError

MAX_IMAGE_PIXELS = 1 << 24
"""What exported models decode at most, whatever a server allows."""

_KINDS = {
    dict: "an object",
    list: "a list",
    str: "text",
    bool: "a truth value",
    int: "a number",
    float: "a number",
    type(None): "null",
}

# What a request may send for an input, by the kind of the input's NumPy type; else any numbers.
_NUMBERS = {"b": ("b", "truth values")} | dict.fromkeys("iu", ("iu", "whole numbers"))


class RequestError(UserError):
    """A rejected request: one line that says what was expected, and an HTTP status."""

    def __init__(self, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.status = status


@dataclasses.dataclass(frozen=True)
class Limits:
    """Bounds on what comes in.

    Attributes:
        request_bytes: size of a request's body.
        batch_size: examples in a request.
        image_pixels: height times width of an encoded image, as its header claims them; exported
            models themselves reject more than `MAX_IMAGE_PIXELS`.
        request_pixels: the same of all encoded images in a request; one image of `image_pixels` is
            always allowed.
        header_seconds: how long a client may take to send the head of a request.
        request_seconds: how long a client may take to send its request, or to take an answer.
        concurrency: requests that are received or answered at once; more are told to come again.
        connections: open connections, busy or idle; more are closed at once. Where the system
            lets the process have fewer files, fewer.

    Example:

    >>> serving.Limits(batch_size=64, request_bytes=1 << 20).concurrency
    64
    """

    request_bytes: int = 16 << 20
    batch_size: int = 256
    image_pixels: int = MAX_IMAGE_PIXELS
    request_pixels: int = 1 << 26
    header_seconds: float = 10.0
    request_seconds: float = 30.0
    concurrency: int = 64
    connections: int = 512


def parse(body: bytes) -> tuple[str, str, Any]:
    """Reads a predict request.

    Returns:
        The signature's name; the form of the request, "instances" (a list of rows) or "inputs"
        (an object of columns), in which the answer goes back; and the values in that form.
    """
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise RequestError(
            f"request: expected a JSON object, received something else: {error}. Send one with "
            '"instances" or "inputs".'
        ) from None
    RequestError.unless(
        isinstance(content, dict),
        f"request: expected a JSON object, received {_KINDS[type(content)]}. Send one with "
        '"instances" or "inputs".',
    )
    given = [key for key in ("instances", "inputs") if key in content]
    RequestError.unless(
        len(given) == 1,
        'request: expected either "instances" (rows) or "inputs" (columns), received '
        f"{' and '.join(given) or 'neither'}. Send one of them.",
    )
    name = content.get("signature_name", "serving_default")
    RequestError.unless(
        isinstance(name, str),
        f"signature_name: expected text, received {_KINDS[type(name)]}. Leave it out for the "
        "default.",
    )
    return name, given[0], content[given[0]]


def arrays(
    form: str, values: Any, specs: dict[str, Any], limits: Limits, has_texts: bool = False
) -> dict[str, np.ndarray]:
    """The arrays for a signature's inputs, checked against them and the limits.

    Args:
        form, values: from `parse`.
        specs: dict of input name to `tf.TensorSpec`, with the batch first.
        limits: `Limits`.
        has_texts: whether strings are texts; else they have to be image files.

    Returns:
        Dict of input name to array.
    """
    if form == "instances":
        values = _columns(values)
    if not _is_named(values):
        RequestError.unless(
            len(specs) == 1,
            f"inputs: expected an object of {sorted(specs)}, received {_KINDS[type(values)]} "
            "without names. Name each input.",
        )
        values = dict.fromkeys(specs, values)
    RequestError.unless(
        set(values) == set(specs),
        f"inputs: expected {sorted(specs)}, received {sorted(values)}. Send exactly these.",
    )
    found = {
        name: _array(name, values[name], spec, limits, has_texts) for name, spec in specs.items()
    }
    counts = {name: len(array) for name, array in found.items()}
    RequestError.unless(  # TensorFlow would repeat a single row for all others.
        len(set(counts.values())) == 1,
        f"inputs: expected as many rows of each, received {counts}. Send one for each example.",
    )
    return found


def response(outputs: dict[str, np.ndarray], form: str) -> bytes:
    """The answer's body: `outputs` is a dict of arrays that all have the batch first."""
    columns = {name: value.tolist() for name, value in outputs.items()}
    content: dict[str, Any] = {"outputs": columns}
    if form == "instances":
        rows = zip(*columns.values(), strict=True)
        content = {"predictions": [dict(zip(columns, row, strict=True)) for row in rows]}
    return json.dumps(content, allow_nan=False).encode()


def check_files(contents: list[bytes], name: str, limits: Limits) -> None:
    """Rejects what is not an image, and images that take too much to decode.

    Args:
        contents: list of bytes, one file each.
        name: the input's name, for messages.
        limits: `Limits` on the pixels.
    """
    from s2d_tf.data import image_files  # Here: it brings TensorFlow.

    total = sum(
        math.prod(image_files.check(content, limits.image_pixels, f"{name}[{i}]"))
        for i, content in enumerate(contents)
    )
    most = max(limits.request_pixels, limits.image_pixels)
    RequestError.unless(
        total <= most,
        f"{name}: expected at most {most} pixels in a request, received {total}. Send fewer or "
        "smaller images.",
    )


def _columns(rows):
    """Rows of named inputs as one object of columns; rows of a single unnamed input as they are."""
    _require_list("instances", rows, "examples")
    if not rows or not _is_named(rows[0]):
        return rows
    names = set(rows[0])
    for i, row in enumerate(rows):
        RequestError.unless(
            isinstance(row, dict) and set(row) == names,
            f"instances[{i}]: expected an object of {sorted(names)}, received something else. "
            "Send the same inputs in each row.",
        )
    return {name: [row[name] for row in rows] for name in names}


def _require_list(place, value, what):
    RequestError.unless(
        isinstance(value, list),
        f"{place}: expected a list of {what}, received {_KINDS[type(value)]}. Send a list.",
    )


def _is_named(value):
    """Whether an object names inputs; `{"b64": ...}` is a value."""
    return isinstance(value, dict) and set(value) != {"b64"}


def _array(name, value, spec, limits, has_texts):
    _require_list(name, value, "examples")
    RequestError.unless(
        1 <= len(value) <= limits.batch_size,
        f"{name}: expected 1 to {limits.batch_size} examples in a request, received {len(value)}. "
        "Send this many at a time.",
    )
    if spec.dtype.name != "string":
        array = _numbers(name, value, spec.dtype.as_numpy_dtype)
    else:
        array, read = np.array(value, object), _text if has_texts else _bytes
        for place, each in np.ndenumerate(array):
            array[place] = read(f"{name}{list(place)}", each)
        if not has_texts:
            check_files(list(array.flat), name, limits)
    RequestError.unless(
        spec.shape.is_compatible_with(array.shape),
        f"{name}: expected the shape {spec.shape}, received {array.shape}. Send a batch of "
        "this shape.",
    )
    return array


def _text(place, value):
    try:
        # JSON can write halves of characters, and base64 anything.
        text = _bytes(place, value).decode() if isinstance(value, dict) else value
        RequestError.unless(
            isinstance(text, str),
            f"{place}: expected text, received {_KINDS[type(value)]}. Send a string.",
        )
        return text.encode()
    except UnicodeError:
        raise RequestError(
            f"{place}: expected text in UTF-8, received bytes or characters outside of it. Send "
            "valid Unicode."
        ) from None


def _numbers(name, value, dtype):
    kinds, what = _NUMBERS.get(np.dtype(dtype).kind, ("iuf", "numbers"))
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError, RecursionError):  # lists of unequal lengths or depths
        array = np.array(None)
    RequestError.unless(
        array.dtype.kind in kinds,
        f"{name}: expected {what} in lists of equal lengths, received something else. Send "
        "nested lists of numbers.",
    )
    with np.errstate(over="ignore"):
        converted = array.astype(dtype)
    whole = kinds == "iu"
    if not (np.array_equal(converted, array) if whole else np.isfinite(converted).all()):
        bounds = f" from {np.iinfo(dtype).min} to {np.iinfo(dtype).max}" if whole else ""
        raise RequestError(
            f"{name}: expected {'whole' if whole else 'finite'} numbers{bounds}, received "
            f"{array.min()} to {array.max()}. Correct the values."
        )
    return converted


def _bytes(place, value):
    encoded: Any = value.get("b64") if isinstance(value, dict) and set(value) == {"b64"} else None
    RequestError.unless(
        isinstance(encoded, str),
        f'{place}: expected {{"b64": "..."}}, received {_KINDS[type(value)]}. Encode the file '
        "in base64.",
    )
    try:
        return base64.b64decode(encoded, validate=True)
    except ValueError:
        raise RequestError(
            f"{place}: expected base64 text, received something else. Encode the file in base64."
        ) from None
