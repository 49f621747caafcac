"""Weights as files: plain arrays by name, checked before a byte of them is used.

A `.weights.h5` file is HDF5 with one array for each weight, under the path that Keras gives it
(`stem/kernel`, `block1_unit1_bn1/gamma`, `head/bias`), little-endian, contiguous and
uncompressed, and nothing else but two attributes: the format's name and a digest of the arrays. So
another implementation of the same network can read it, and nothing in it depends on how Keras
arranges its own files. State that is no weight (seed generators, metrics) is not in it.
"""

import hashlib
import io
import json
import pathlib
import subprocess
import sys

import h5py
import numpy as np

from s2d_tf import files
from s2d_tf.storage import weights_check
from s2d_tf.storage.weights_check import WeightsError

__all__ = [
    "Checker",
    "WeightsError",
    "assign",
    "by_name",
    "load",
    "parse",
    "read_bytes",
    "save",
    "size_limit",
]

PRECISIONS = {"float32": ("<f4", "<f2"), "float16": ("<f2",), "float64": ("<f8",)}
OVERHEAD_BYTES, OVERHEAD_BYTES_PER_ARRAY = 2**16, 2**12
_ADVICE = "get the file again, or train the model again"


def by_name(model):
    """The weights of a built model, `{name: variable}`.

    Names do not depend on what was built before in the same process: a weight of the model itself
    is named without the model's (counted) name, and our layers have names of their own.
    """
    own = f"{model.name}/"
    named = {}
    for variable in model.weights:
        name = variable.path.removeprefix(own)
        if name in named:
            raise WeightsError(f"Two weights of {model.name} are called {name}: name the layers.")
        named[name] = variable
    if not named:
        raise WeightsError(f"{model.name} has no weights of its own to save or load.")
    return named


def save(model, path, half=False):
    """Writes the weights of a model, whole or not at all.

    Args:
        model: a built Keras model.
        path: the file, usually `*.weights.h5`.
        half: keep numbers in half precision.
    """
    arrays = {}
    for name, variable in by_name(model).items():
        array = np.asarray(variable.numpy(), order="C")
        if half and array.dtype.kind == "f":
            with np.errstate(over="ignore"):
                array = array.astype(np.float16)
        arrays[name] = array.astype(array.dtype.newbyteorder("<"), copy=False)
    _check_finite(arrays, path, "half precision cannot hold it" if half else "nothing was written")
    # Made in memory: where libhdf5 itself meets a full disk, its errors do not say so.
    data = io.BytesIO()
    with h5py.File(data, "w") as file:
        file.attrs["format"] = np.bytes_(weights_check.FORMAT)
        file.attrs["sha256"] = np.bytes_(_digest(arrays))
        for name, array in arrays.items():
            file.create_dataset(name, data=array)
    with files.written_beside(path) as temporary:
        temporary.write_bytes(data.getbuffer())


def load(model, path, sha256=None):
    """Gives a built model the weights of a file: all of them or, with an error, none.

    Args:
        model: a built Keras model.
        path: a file that `save` wrote.
        sha256: what the file's hash must be. Without it the file is first parsed in a process of
            its own, because a damaged one can crash the library that reads it.
    """
    assign(model, parse(read_bytes(path, size_limit(model)), model, path, sha256))


def assign(model, arrays):
    """Sets all weights from `{name: array}` as `parse` returned it."""
    for name, variable in by_name(model).items():
        variable.assign(arrays[name].astype(variable.dtype, copy=False))


def size_limit(model):
    """How many bytes a weights file of this model can have."""
    named = by_name(model)
    numbers = sum(
        np.dtype(variable.dtype).itemsize * int(np.prod(variable.shape))
        for variable in named.values()
    )
    return numbers + OVERHEAD_BYTES + OVERHEAD_BYTES_PER_ARRAY * len(named)


def read_bytes(path, limit):
    """The bytes of a regular file that has no more than `limit` of them."""
    path = pathlib.Path(path)
    try:
        if not path.is_file():
            what = "is not a file" if path.exists() else "does not exist"
            raise WeightsError(f"The weights file {path} {what}: {_ADVICE}.")
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise WeightsError(f"{path} cannot be read ({error.strerror}).") from None
    if len(data) > limit:
        raise WeightsError(
            f"{path} is larger than this model's weights can be ({limit:,} bytes): it is another "
            "model's, or damaged."
        )
    return data


def parse(data, model, path, sha256=None, checker=None):
    """The arrays in the bytes of a weights file, `{name: array}`, checked against a model.

    Args:
        data: the bytes.
        model: the built model that shall have them; it is not changed.
        path: what to call the file in errors.
        sha256: what the hash of `data` must be, where that is known.
        checker: a running `Checker`, to look into the file elsewhere although its hash is right
            (somebody else's hash proves that a file is whole, not that it means well).
    """
    if sha256 is not None and hashlib.sha256(data).hexdigest() != sha256:
        raise WeightsError(
            f"{path} does not match its sha256 ({sha256[:12]}...): it is damaged or another "
            f"file; {_ADVICE}."
        )
    expected = {
        name: (tuple(variable.shape), _dtypes(variable))
        for name, variable in by_name(model).items()
    }
    try:
        if checker is not None:
            digest, found = checker.layout(data, expected)
        elif sha256 is not None:
            digest, found = weights_check.layout(data, expected)
        else:
            with Checker() as own:
                digest, found = own.layout(data, expected)
        # Again, for what another process said.
        weights_check.check_places(found, expected, len(data))
        arrays = {
            name: np.frombuffer(data, dtype, int(np.prod(shape)), found[name][1]).reshape(shape)
            for name, (shape, _) in expected.items()
            for dtype in [found[name][0]]
        }
        if _digest(arrays) != digest:
            raise WeightsError("its arrays do not match its digest: it is damaged")
    except WeightsError as error:
        raise WeightsError(
            f"{path} does not hold the weights of this model: {error}; {_ADVICE}."
        ) from None
    _check_finite(arrays, path, _ADVICE)
    return arrays


class Checker:
    """A process that looks into weights files of unknown origin, for as long as it is open."""

    def __init__(self, command=None):
        # By path and without the folder on the module path: the program needs nothing of ours.
        self.command = command or [sys.executable, "-P", weights_check.__file__]

    def __enter__(self):
        self.process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def layout(self, data, expected):
        """`weights_check.layout`, elsewhere."""
        request = {"size": len(data), "expected": expected}
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n" + data)
            self.process.stdin.flush()
            answer = json.loads(self.process.stdout.readline(weights_check.ANSWER_BYTES))
        except (OSError, ValueError):
            raise WeightsError("the process that looks into weights files has died") from None
        if "error" in answer:
            raise WeightsError(answer["error"])
        found = {name: tuple(place) for name, place in answer["found"].items()}
        for name, (_, dtypes) in expected.items():
            dtype, offset = found.get(name, (None, None))
            if dtype not in dtypes or type(offset) is not int or offset < 0:
                raise WeightsError(f"{name} has no usable place")
        return answer["digest"], found


def _dtypes(variable):
    dtype = str(variable.dtype)
    return PRECISIONS.get(dtype) or (np.dtype(dtype).newbyteorder("<").str,)


def _digest(arrays):
    """SHA-256 over names, types, shapes and numbers, in the order of the names."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"{name} {array.dtype.str} {list(array.shape)}\n".encode())
        digest.update(np.ascontiguousarray(array))
    return digest.hexdigest()


def _check_finite(arrays, path, advice):
    for name, array in arrays.items():
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise WeightsError(f"{path}: {name} is not finite everywhere; {advice}.")
