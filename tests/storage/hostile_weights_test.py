"""Weights files that mean harm, and thousands of damaged ones: rejected, or harmless.

The model has two small layers, so that most bytes of its file are structure and not numbers.
"""

import json
import os
import pickle
import random
import resource
import tracemalloc
import zipfile

import keras
import numpy as np
import pytest

from s2d_tf.files import arrays as packing
from s2d_tf.storage import weights

CRAFTED = {}
LITTLE = 2**20
"""Bytes that a rejection may take; the bombs among the crafted files declare far more."""


def crafted(function):
    """A function from the bytes of a good file to those of a hostile one, or `None` if it wrote
    the path itself; and what the error must say."""
    CRAFTED[function.__name__] = function
    return function


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


def changed(data, **arrays):
    """A file with other arrays (`a__kernel` for a/kernel; None for none) and the digest of them."""
    held, _ = packing.unpack(data)
    held |= {name.replace("__", "/"): array for name, array in arrays.items()}
    held = {name: array for name, array in held.items() if array is not None}
    return packing.pack(held, {"sha256": weights._digest(held)})


def with_header(data, **entry):
    """A file whose header says otherwise about a/kernel."""
    header, body = split(data)
    header["a/kernel"] |= entry
    return join(header, body)


@crafted
def empty(data, path):
    return b"", "expected a header of at most"


@crafted
def text(data, path):
    return b"weights\n" * 100, "expected a header of at most"


@crafted
def pickled(data, path):
    return pickle.dumps(os.system), "expected a header of at most"


@crafted
def archive(data, path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("../../weights", b"x")
    return None, "expected a header of at most"


@crafted
def hdf5(data, path):
    return b"\x89HDF\r\n\x1a\n" + bytes(1000), "expected a header of at most"


@crafted
def half_of_it(data, path):
    return data[: len(data) // 2], "expected a safetensors file"


@crafted
def last_byte_missing(data, path):
    return data[:-1], "expected a safetensors file"


@crafted
def trailing_bytes(data, path):
    return data + bytes(8), "not fully covered"


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
def header_length_of_an_exabyte(data, path):
    return (2**63).to_bytes(8, "little") + data[8:], "expected a header of at most"


@crafted
def header_beyond_the_file(data, path):
    return (len(data) + 1).to_bytes(8, "little") + data[8:], "expected a safetensors file"


@crafted
def header_of_no_bytes(data, path):
    return bytes(8) + data[8:], "expected a safetensors file"


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
def deep_header(data, path):
    return join(b'{"a":' * 1000 + b"1" + b"}" * 1000, b""), "recursion limit|expected a header"


@crafted
def header_that_is_a_list(data, path):
    return join(b"[]", split(data)[1]), "expected a safetensors file"


@crafted
def header_that_is_not_utf8(data, path):
    return join(b'{"\xff\xfe": 1}', split(data)[1]), "expected a safetensors file"


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
def missing_array(data, path):
    return changed(data, b__bias=None), "expected an array 'b/bias', received none"


@crafted
def extra_array(data, path):
    return changed(data, b__more=np.zeros(3, np.float32)), "expected no array 'b/more'"


@crafted
def escaping_name(data, path):
    return changed(data, **{"../../x": np.zeros(1, np.float32)}), "expected no array '../../x'"


@crafted
def name_with_a_line_break(data, path):
    return changed(data, **{"\n\x00": np.zeros(1, np.float32)}), r"expected no array '\\n\\x00'"


@crafted
def no_arrays(data, path):
    return packing.pack({}, {"sha256": "0" * 64}), "expected an array 'a/bias', received none"


@crafted
def other_models_names(data, path):
    held, _ = packing.unpack(data)
    renamed = {f"c/{name}": array for name, array in held.items()}
    return packing.pack(renamed, {"sha256": weights._digest(renamed)}), "expected an array 'a/bias'"


@crafted
def transposed(data, path):
    return changed(data, a__kernel=np.zeros((4, 5), np.float32)), r"of shape \(5, 4\), received"


@crafted
def flat(data, path):
    return changed(data, a__kernel=np.zeros(20, np.float32)), r"of shape \(5, 4\), received"


@crafted
def shape_bomb(data, path):
    return with_header(data, shape=[2**40]), "expected a safetensors file"


@crafted
def overflowing_shape(data, path):
    return with_header(data, shape=[2**62, 2**62]), "overflow"


@crafted
def negative_shape(data, path):
    return with_header(data, shape=[-5, -4]), "expected a safetensors file"


@crafted
def fractional_shape(data, path):
    return with_header(data, shape=[5.5, 4]), "expected a safetensors file"


@crafted
def empty_bomb(data, path):
    """No bytes, and so many rows that a loop over them would never end."""
    return changed(
        data, a__kernel=np.zeros((2**60, 0), np.float32)
    ), r"received float32 of shape \(1152921504606846976, 0\)"


@crafted
def offsets_beyond_the_file(data, path):
    return with_header(data, data_offsets=[10**12, 10**12 + 80]), "expected a safetensors file"


@crafted
def offsets_backwards(data, path):
    return with_header(data, data_offsets=[80, 0]), "expected a safetensors file"


@crafted
def negative_offsets(data, path):
    return with_header(data, data_offsets=[-80, 0]), "expected a safetensors file"


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
def double_precision(data, path):
    return changed(
        data, a__kernel=np.zeros((5, 4))
    ), "expected float32 or float16 .* received float64"


@crafted
def whole_numbers(data, path):
    kernel = np.zeros((5, 4), np.int32)
    return changed(data, a__kernel=kernel), "expected float32 or float16 .* received int32"


@crafted
def truth_values(data, path):
    return changed(data, a__kernel=np.zeros((5, 4), bool)), "expected float32 or float16"


@crafted
def complex_numbers(data, path):
    return changed(data, a__kernel=np.zeros((5, 4), np.complex64)), "received complex64"


@crafted
def brain_floats(data, path):
    header, body = split(data)
    header["a/kernel"] |= {"dtype": "BF16", "shape": [5, 8]}
    return join(header, body), "BF16"


@crafted
def unknown_type(data, path):
    return with_header(data, dtype="OBJECT"), "expected a safetensors file"


@crafted
def no_metadata(data, path):
    return packing.pack(packing.unpack(data)[0]), "expected the digest of it all, received {}"


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


@crafted
def other_numbers(data, path):
    return data[:-1] + bytes([data[-1] ^ 1]), "expected the digest of it all"


@crafted
def not_a_number(data, path):
    return changed(data, a__bias=np.full(4, np.nan, np.float32)), "a/bias: expected finite"


def test_there_are_forty_of_them():
    assert len(CRAFTED) >= 40


@pytest.mark.parametrize("name", CRAFTED)
def test_a_crafted_file_is_rejected_and_nothing_changes(name, model, good, tmp_path):
    path = tmp_path / "a.safetensors"
    data, message = CRAFTED[name](good, path)
    if data is not None:
        path.write_bytes(data)
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
    for expected, weight in zip(before, model.weights, strict=True):
        np.testing.assert_array_equal(weight.numpy(), expected)


def check_mutations(model, good, mutate, count, seed):
    """Every copy is rejected by name or gives the very arrays; returns how many were rejected."""
    expected = {name: weight.numpy() for name, weight in weights.by_name(model).items()}
    rng, reasons = random.Random(seed), []
    for i in range(count):
        data = mutate(good, rng)
        try:
            arrays = weights.parse(data, model, f"copy {i}")
        except weights.WeightsError as error:
            reasons.append(str(error))
            continue
        assert arrays.keys() == expected.keys(), i
        for name, array in arrays.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=f"copy {i}")
    assert not [reason for reason in reasons if len(reason) > 600 or "\n" in reason]
    return len(reasons)


def test_ten_thousand_damaged_copies_are_rejected_or_harmless(model, good, mutate):
    rejected = check_mutations(model, good, mutate, count=10_000, seed=2)
    assert 9000 < rejected <= 10_000
