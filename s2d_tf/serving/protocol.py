"""TF Serving's REST protocol: JSON to arrays and back, strictly."""

import base64
import binascii
import dataclasses
import json

import numpy as np

from s2d_tf.serving.errors import bad_request


@dataclasses.dataclass(frozen=True)
class Input:
    """An input of a signature; `shape` has the batch first, as None."""

    name: str
    dtype: str
    shape: tuple


@dataclasses.dataclass(frozen=True)
class Request:
    """A predict request: which signature, and the JSON values for its inputs.

    `rows` says in which of the two forms it came and the answer goes: a list of objects, or an
    object of lists.
    """

    signature_name: str
    values: object
    rows: bool


def parse(body):
    """The `Request` in a body of JSON."""
    try:
        content = json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise bad_request(f"Expected a JSON object, received something else: {error}.") from None
    if not isinstance(content, dict):
        raise bad_request(f"Expected a JSON object, received {_kind(content)}.")
    given = [key for key in ("instances", "inputs") if key in content]
    if len(given) != 1:
        raise bad_request(
            'Expected either "instances" (rows) or "inputs" (columns) in the request, received '
            f"{' and '.join(given) or 'neither'}."
        )
    signature_name = content.get("signature_name", "serving_default")
    if not isinstance(signature_name, str):
        raise bad_request(f"signature_name: expected text, received {_kind(signature_name)}.")
    return Request(signature_name, content[given[0]], given[0] == "instances")


def arrays(request, inputs, limits):
    """Dict of input name to array, checked against the signature's inputs and the limits."""
    columns = _columns_of_rows(request.values, inputs) if request.rows else request.values
    if not request.rows and not _is_named(columns):
        columns = {_only(inputs): columns}
    if set(columns) != {each.name for each in inputs}:
        raise bad_request(
            f"Expected the inputs {sorted(each.name for each in inputs)}, received "
            f"{sorted(columns)}."
        )
    return {each.name: _array(columns[each.name], each, limits) for each in inputs}


def response(outputs, rows):
    """The answer's body: `outputs` is a dict of arrays that all have the batch first."""
    if not rows:
        content = {"outputs": {name: value.tolist() for name, value in outputs.items()}}
    else:
        columns = [value.tolist() for value in outputs.values()]
        predictions = [dict(zip(outputs, row, strict=True)) for row in zip(*columns, strict=True)]
        content = {"predictions": predictions}
    return json.dumps(content, allow_nan=False).encode()


def _columns_of_rows(rows, inputs):
    if not isinstance(rows, list) or not rows:
        raise bad_request(f"instances: expected a list of at least one, received {_kind(rows)}.")
    if not _is_named(rows[0]):
        return {_only(inputs): rows}
    names = set(rows[0])
    for i, row in enumerate(rows):
        if not isinstance(row, dict) or set(row) != names:
            raise bad_request(f"instances[{i}]: expected an object of {sorted(names)}.")
    return {name: [row[name] for row in rows] for name in names}


def _is_named(value):
    """Whether an object names inputs; `{"b64": ...}` is a value."""
    return isinstance(value, dict) and set(value) != {"b64"}


def _only(inputs):
    if len(inputs) != 1:
        raise bad_request(f"Expected an object of {sorted(each.name for each in inputs)}.")
    return inputs[0].name


def _array(value, expected, limits):
    if not isinstance(value, list):
        raise bad_request(f"{expected.name}: expected a list, received {_kind(value)}.")
    limits.check_batch(len(value))
    if expected.dtype == "string":
        contents = [_file(each, f"{expected.name}[{i}]") for i, each in enumerate(value)]
        limits.check_files(contents, expected.name)
        return np.array(contents, object)
    array = _numbers(value, expected)
    shape = ("batch", *expected.shape[1:])
    if array.ndim != len(shape) or any(
        want not in (None, got) for want, got in zip(shape[1:], array.shape[1:], strict=True)
    ):
        raise bad_request(
            f"{expected.name}: expected the shape {_shape(shape)}, received {_shape(array.shape)}."
        )
    return array


def _numbers(value, expected):
    try:
        array = np.asarray(value)
    except (ValueError, OverflowError, RecursionError):
        array = None
    integers = np.issubdtype(expected.dtype, np.integer)
    if array is None or array.dtype.kind not in ("iu" if integers else "iuf"):
        kind = "whole numbers" if integers else "numbers"
        raise bad_request(
            f"{expected.name}: expected {kind} in lists of equal lengths, received something else."
        )
    if integers:
        low, high = np.iinfo(expected.dtype).min, np.iinfo(expected.dtype).max
        if array.size and not (low <= array.min() and array.max() <= high):
            raise bad_request(
                f"{expected.name}: expected whole numbers from {low} to {high}, received "
                f"{array.min()} to {array.max()}."
            )
        return array.astype(expected.dtype)
    with np.errstate(over="ignore"):
        array = array.astype(expected.dtype)
    if not np.isfinite(array).all():
        raise bad_request(f"{expected.name}: expected finite numbers, received larger ones.")
    return array


def _file(value, place):
    encoded = value.get("b64") if isinstance(value, dict) and set(value) == {"b64"} else None
    if not isinstance(encoded, str):
        raise bad_request(f'{place}: expected {{"b64": "..."}}, received {_kind(value)}.')
    try:
        return base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise bad_request(f"{place}: expected base64 text, received something else.") from None


def _refuse_constant(name):
    raise ValueError(f"{name} is not a number in JSON")


def _kind(value):
    if isinstance(value, list):
        return "a list" if value else "an empty list"
    names = {dict: "an object", str: "text", bool: "a truth value", type(None): "null"}
    return names.get(type(value), "a number")


def _shape(shape):
    return "[" + ", ".join("any" if size is None else str(size) for size in shape) + "]"
