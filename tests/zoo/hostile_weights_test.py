"""Weights files that mean harm, and thousands of damaged ones: rejected, or harmless.

The model has two small layers, so that most bytes of its file are structure and not numbers.
"""

import json
import os
import pickle
import random
import resource
import tracemalloc

import keras
import numpy as np
import pytest

from s2d_tf import files
from s2d_tf.zoo import weights
from tests import contracts

LITTLE = 2**20
"""Bytes that a rejection may take; the bombs among the crafted files declare far more."""


@pytest.fixture(scope="module")
def model():
    network = keras.Sequential(
        [keras.Input((5,)), keras.layers.Dense(4, name="a"), keras.layers.Dense(3, name="b")]
    )
    rng = np.random.default_rng(0)
    for weight in network.weights:
        weight.assign(rng.normal(size=weight.shape))
    return network


@pytest.fixture(scope="module")
def good(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("good") / "a.safetensors"
    weights.save(model, path)
    return path.read_bytes()


def split(data):
    """The header's values and the bytes after it."""
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]


def join(header, body):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def with_text(change):
    """A file with another header, whose text is changed."""
    return lambda data: join(change(json.dumps(split(data)[0])).encode(), split(data)[1])


def with_kernel(**entry):
    """A file whose header says otherwise about a/kernel."""

    def make(data):
        header, body = split(data)
        return join(header | {"a/kernel": header["a/kernel"] | entry}, body)

    return make


def with_entry(name, value):
    return lambda data: join(split(data)[0] | {name: value}, split(data)[1])


def with_arrays(**changes):
    """A file with other arrays, None for none, and the digest of them."""

    def make(data):
        held = files.unpack_arrays(data)[0] | {k.replace("_", "/"): v for k, v in changes.items()}
        return packed({name: array for name, array in held.items() if array is not None})

    return make


def packed(arrays):
    return files.pack_arrays(arrays, {"sha256": weights._digest(arrays)})


def with_metadata(metadata):
    return lambda data: files.pack_arrays(files.unpack_arrays(data)[0], metadata)


def renamed(data):
    held, _ = files.unpack_arrays(data)
    return packed({f"c/{name}": array for name, array in held.items()})


def with_array(name, array):
    return lambda data: packed(files.unpack_arrays(data)[0] | {name: array})


def overlapping(data):
    header, _ = split(data)
    return with_kernel(data_offsets=header["b/kernel"]["data_offsets"])(data)


def with_a_hole(data):
    header, body = split(data)
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0]:
            entry["data_offsets"] = [offset + 4 for offset in entry["data_offsets"]]
    return join(header, body[:16] + bytes(4) + body[16:])


def many_arrays(data):
    nothing = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    return join(split(data)[0] | {f"x{i}": nothing for i in range(2000)}, split(data)[1])


ONE = np.zeros(1, np.float32)
FORM, HEADER, DIGEST = "expected a safetensors file", "a header of at most", "the digest of it all"
BYTES = {
    "empty": (lambda data: b"", HEADER),
    "text": (lambda data: b"weights\n" * 100, HEADER),
    "pickled": (lambda data: pickle.dumps(os.system), HEADER),
    "hdf5": (lambda data: b"\x89HDF\r\n\x1a\n" + bytes(1000), HEADER),
    "archive": (lambda data: b"PK\x03\x04" + bytes(1000), HEADER),
    "half of it": (lambda data: data[: len(data) // 2], FORM),
    "last byte missing": (lambda data: data[:-1], FORM),
    "trailing bytes": (lambda data: data + bytes(8), "not fully covered"),
    "header of an exabyte": (lambda data: (2**63).to_bytes(8, "little") + data[8:], HEADER),
    "header beyond the file": (lambda d: (len(d) + 1).to_bytes(8, "little") + d[8:], FORM),
    "header of no bytes": (lambda data: bytes(8) + data[8:], FORM),
    "padded header": (with_text(lambda text: text + " " * 10_000), "at most .* bytes, received"),
    "header without an end": (with_text(lambda text: text[:-1]), FORM),
    "deep header": (
        lambda data: join(b'{"a":' * 1000 + b"1" + b"}" * 1000, b""),
        "recursion limit|expected a header",
    ),
    "header that is a list": (lambda data: join(b"[]", split(data)[1]), FORM),
    "header that is not UTF-8": (lambda data: join(b'{"\xff\xfe": 1}', split(data)[1]), FORM),
    "many arrays": (many_arrays, "expected at most|expected a header of at most"),
    "array twice": (with_text(lambda text: f"{text[:-1]}, {text[1:]}"), "each key once|duplicate"),
    "infinite shape": (with_text(lambda text: text.replace("[5, 4]", "[Infinity, 4]")), FORM),
    "overlapping arrays": (overlapping, FORM),
    "hole between arrays": (with_a_hole, FORM),
    "shape bomb": (with_kernel(shape=[2**40]), FORM),
    "overflowing shape": (with_kernel(shape=[2**62, 2**62]), "overflow"),
    "negative shape": (with_kernel(shape=[-5, -4]), FORM),
    "fractional shape": (with_kernel(shape=[5.5, 4]), FORM),
    "offsets beyond the file": (with_kernel(data_offsets=[10**12, 10**12 + 80]), FORM),
    "offsets backwards": (with_kernel(data_offsets=[80, 0]), FORM),
    "negative offsets": (with_kernel(data_offsets=[-80, 0]), FORM),
    "brain floats": (with_kernel(dtype="BF16", shape=[5, 8]), "BF16"),
    "unknown type": (with_kernel(dtype="OBJECT"), FORM),
    "no arrays": (
        lambda data: files.pack_arrays({}, {"sha256": "0" * 64}),
        "expected an array 'a/bias', received none",
    ),
    "another model's names": (renamed, "expected an array 'a/bias'"),
    "other numbers": (lambda data: data[:-1] + bytes([data[-1] ^ 1]), DIGEST),
    "no metadata": (with_metadata(None), "the digest of it all, received {}"),
    "more metadata": (with_entry("__metadata__", {"sha256": "0", "format": "pt"}), DIGEST),
    "metadata that is code": (with_metadata({"sha256": "__import__('os')"}), DIGEST),
    "metadata of numbers": (with_entry("__metadata__", {"sha256": 1}), FORM),
    "missing array": (with_arrays(b_bias=None), "expected an array 'b/bias', received none"),
    "extra array": (with_array("b/more", ONE), "expected no array 'b/more'"),
    "escaping name": (with_array("../../x", ONE), "expected no array '../../x'"),
    "name with a line break": (with_array("\n\x00", ONE), r"expected no array '\\n\\x00'"),
    "transposed": (
        with_arrays(a_kernel=np.zeros((4, 5), np.float32)),
        r"of shape \(5, 4\), received",
    ),
    "flat": (with_arrays(a_kernel=np.zeros(20, np.float32)), r"of shape \(5, 4\), received"),
    # No bytes, and so many rows that a loop over them would never end.
    "empty bomb": (
        with_arrays(a_kernel=np.zeros((2**60, 0), np.float32)),
        r"received float32 of shape \(1152921504606846976, 0\)",
    ),
    "double precision": (with_arrays(a_kernel=np.zeros((5, 4))), "float16 .* received float64"),
    "whole numbers": (with_arrays(a_kernel=np.zeros((5, 4), np.int32)), "received int32"),
    "truth values": (with_arrays(a_kernel=np.zeros((5, 4), bool)), "received bool"),
    "complex numbers": (with_arrays(a_kernel=np.zeros((5, 4), np.complex64)), "complex64"),
    "not a number": (with_arrays(a_bias=np.full(4, np.nan, np.float32)), "expected finite"),
}
"""From the bytes of a good file to those of a hostile one, and what the error must say."""


def sparse_terabyte(path):
    path.touch()
    os.truncate(path, 10**12)


PLACES = {
    "sparse terabyte": (sparse_terabyte, "expected at most .* bytes, received more"),
    "named pipe": (os.mkfifo, "expected a regular file"),
    "folder": (os.mkdir, "expected a file, received 'Is a directory'"),
    "nothing": (lambda path: None, "expected a file, received 'No such file"),
}


@pytest.mark.parametrize("name", [*BYTES, *PLACES])
def test_a_crafted_file_is_rejected_and_nothing_changes(name, model, good, tmp_path):
    path = tmp_path / "a.safetensors"
    make, message = (BYTES | PLACES)[name]
    if name in BYTES:
        path.write_bytes(make(good))
    else:
        make(path)
    before = [weight.numpy().copy() for weight in model.weights]
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    with pytest.raises(weights.WeightsError, match=message) as caught:
        weights.load(model, path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)
    assert len(str(caught.value)) < 800
    # Neither Python nor the reader itself takes what is declared; the first is counted in bytes.
    assert peak < LITTLE
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident < 16 * LITTLE // 1024
    contracts.assert_same(model.get_weights(), before)


def test_ten_thousand_damaged_copies_are_rejected_or_harmless(model, good, mutate):
    expected = [weight.numpy() for weight in model.weights]
    rng, reasons = random.Random(2), []
    for i in range(10_000):
        try:
            weights.assign(model, mutate(good, rng), f"copy {i}")
        except weights.WeightsError as error:
            reasons.append(str(error))
    contracts.assert_same(model.get_weights(), expected)
    assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
    assert 9000 < len(reasons) <= 10_000
