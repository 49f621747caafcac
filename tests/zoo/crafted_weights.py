"""Weights files that mean harm: each with what its rejection must say."""

import json
import os
import pickle
import zipfile

import numpy as np

from s2d_tf.files import arrays as packing
from s2d_tf.zoo import weights

CRAFTED = {}


def crafted(function):
    """A function from the bytes of a good file to those of a hostile one, or `None` if it wrote
    the path itself; and what the error must say."""
    CRAFTED[function.__name__] = function
    return function


def split(data):
    """The header's values and the bytes after it."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def changed(data, arrays):
    """A file with other arrays (None for none) and the digest of them."""
    held = packing.unpack(data)[0] | arrays
    held = {name: array for name, array in held.items() if array is not None}
    return packing.pack(held, {"sha256": weights._digest(held)})


def with_header(data, entry):
    """A file whose header says otherwise about a/kernel."""
    header, body = split(data)
    header["a/kernel"] |= entry
    return join(header, body)


@crafted
def archive(data, path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../../weights", b"x")
    return None, "expected a header of at most"


@crafted
def sparse_terabyte(data, path):
    path.write_bytes(data)
    os.truncate(path, 10**12)
    return None, "expected at most .* bytes, received more"


@crafted
def named_pipe(data, path):
    os.mkfifo(path)
    return None, "expected a regular file"


@crafted
def folder(data, path):
    path.mkdir()
    return None, "expected a regular file"


@crafted
def padded_header(data, path):
    header, body = split(data)
    return join(json.dumps(header).encode() + b" " * 10_000, body), "at most .* bytes, received"


@crafted
def many_arrays(data, path):
    header, body = split(data)
    nothing = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header |= {f"x{i}": nothing for i in range(2000)}
    return join(header, body), "expected at most|expected a header of at most"


@crafted
def header_without_an_end(data, path):
    header, body = split(data)
    return join(json.dumps(header).encode()[:-1], body), "expected a safetensors file"


@crafted
def array_twice(data, path):
    header, body = split(data)
    kernel = json.dumps(header["a/kernel"])
    text = json.dumps(header)[:-1] + f', "a/kernel": {kernel}}}'
    return join(text.encode(), body), "expected each key once"


@crafted
def infinite_shape(data, path):
    header, body = split(data)
    text = json.dumps(header).replace("[5, 4]", "[Infinity, 4]")
    return join(text.encode(), body), "expected a safetensors file"


@crafted
def other_models_names(data, path):
    held, _ = packing.unpack(data)
    renamed = {f"c/{name}": array for name, array in held.items()}
    return packing.pack(renamed, {"sha256": weights._digest(renamed)}), "expected an array 'a/bias'"


@crafted
def overlapping_arrays(data, path):
    header, body = split(data)
    header["a/kernel"]["data_offsets"] = header["b/kernel"]["data_offsets"]
    return join(header, body), "expected a safetensors file"


@crafted
def hole_between_arrays(data, path):
    header, body = split(data)
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0]:
            entry["data_offsets"] = [offset + 4 for offset in entry["data_offsets"]]
    return join(header, body[:16] + bytes(4) + body[16:]), "expected a safetensors file"


@crafted
def more_metadata(data, path):
    header, body = split(data)
    header["__metadata__"]["format"] = "pt"
    return join(header, body), "expected the digest of it all"


@crafted
def metadata_that_is_code(data, path):
    metadata = {"sha256": "__import__('os').system('true')"}
    return packing.pack(packing.unpack(data)[0], metadata), "expected the digest of it all"


@crafted
def metadata_of_numbers(data, path):
    header, body = split(data)
    return join(header | {"__metadata__": {"sha256": 1}}, body), "expected a safetensors file"


BYTES = {
    "empty": (lambda data: b"", "expected a header of at most"),
    "text": (lambda data: b"weights\n" * 100, "expected a header of at most"),
    "pickled": (lambda data: pickle.dumps(os.system), "expected a header of at most"),
    "hdf5": (lambda data: b"\x89HDF\r\n\x1a\n" + bytes(1000), "expected a header of at most"),
    "half_of_it": (lambda data: data[: len(data) // 2], "expected a safetensors file"),
    "last_byte_missing": (lambda data: data[:-1], "expected a safetensors file"),
    "trailing_bytes": (lambda data: data + bytes(8), "not fully covered"),
    "header_length_of_an_exabyte": (
        lambda data: (2**63).to_bytes(8, "little") + data[8:],
        "expected a header of at most",
    ),
    "header_beyond_the_file": (
        lambda data: (len(data) + 1).to_bytes(8, "little") + data[8:],
        "expected a safetensors file",
    ),
    "header_of_no_bytes": (lambda data: bytes(8) + data[8:], "expected a safetensors file"),
    "deep_header": (
        lambda data: join(b'{"a":' * 1000 + b"1" + b"}" * 1000, b""),
        "recursion limit|expected a header",
    ),
    "header_that_is_a_list": (
        lambda data: join(b"[]", split(data)[1]),
        "expected a safetensors file",
    ),
    "header_that_is_not_utf8": (
        lambda data: join(b'{"\xff\xfe": 1}', split(data)[1]),
        "expected a safetensors file",
    ),
    "no_arrays": (
        lambda data: packing.pack({}, {"sha256": "0" * 64}),
        "expected an array 'a/bias', received none",
    ),
    "no_metadata": (
        lambda data: packing.pack(packing.unpack(data)[0]),
        "expected the digest of it all, received {}",
    ),
    "other_numbers": (
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        "expected the digest of it all",
    ),
}

# What the header says of a/kernel.
HEADERS = {
    "shape_bomb": ({"shape": [2**40]}, "expected a safetensors file"),
    "overflowing_shape": ({"shape": [2**62, 2**62]}, "overflow"),
    "negative_shape": ({"shape": [-5, -4]}, "expected a safetensors file"),
    "fractional_shape": ({"shape": [5.5, 4]}, "expected a safetensors file"),
    "offsets_beyond_the_file": (
        {"data_offsets": [10**12, 10**12 + 80]},
        "expected a safetensors file",
    ),
    "offsets_backwards": ({"data_offsets": [80, 0]}, "expected a safetensors file"),
    "negative_offsets": ({"data_offsets": [-80, 0]}, "expected a safetensors file"),
    "brain_floats": ({"dtype": "BF16", "shape": [5, 8]}, "BF16"),
    "unknown_type": ({"dtype": "OBJECT"}, "expected a safetensors file"),
}

ARRAYS = {
    "missing_array": ("b/bias", None, "expected an array 'b/bias', received none"),
    "extra_array": ("b/more", np.zeros(3, np.float32), "expected no array 'b/more'"),
    "escaping_name": ("../../x", np.zeros(1, np.float32), "expected no array '../../x'"),
    "name_with_a_line_break": (
        *("\n\x00", np.zeros(1, np.float32)),
        r"expected no array '\\n\\x00'",
    ),
    "transposed": ("a/kernel", np.zeros((4, 5), np.float32), r"of shape \(5, 4\), received"),
    "flat": ("a/kernel", np.zeros(20, np.float32), r"of shape \(5, 4\), received"),
    # No bytes, and so many rows that a loop over them would never end.
    "empty_bomb": (
        *("a/kernel", np.zeros((2**60, 0), np.float32)),
        r"received float32 of shape \(1152921504606846976, 0\)",
    ),
    "double_precision": (
        *("a/kernel", np.zeros((5, 4))),
        "expected float32 or float16 .* received float64",
    ),
    "whole_numbers": (
        *("a/kernel", np.zeros((5, 4), np.int32)),
        "expected float32 or float16 .* received int32",
    ),
    "truth_values": ("a/kernel", np.zeros((5, 4), bool), "expected float32 or float16"),
    "complex_numbers": ("a/kernel", np.zeros((5, 4), np.complex64), "received complex64"),
    "not_a_number": ("a/bias", np.full(4, np.nan, np.float32), "a/bias: expected finite"),
}


def craft(name, data, path):
    """Writes the hostile file of that name from the bytes of a good one; returns the error."""
    if name in CRAFTED:
        content, message = CRAFTED[name](data, path)
    elif name in BYTES:
        content, message = BYTES[name][0](data), BYTES[name][1]
    elif name in HEADERS:
        content, message = with_header(data, HEADERS[name][0]), HEADERS[name][1]
    else:
        key, array, message = ARRAYS[name]
        content = changed(data, {key: array})
    if content is not None:
        path.write_bytes(content)
    return message


NAMES = [*CRAFTED, *BYTES, *HEADERS, *ARRAYS]
