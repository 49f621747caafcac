"""An exported model needs nothing of ours: other processes and languages get the same answers."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from s2d_tf.zoo import recipes

METHODS = sorted({name.split(".")[1] for name in recipes.names()})
# Each method is a process of its own, so all but one are in the slow tier.
EVERY = ["s2d", *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS if m != "s2d")]


# TensorFlow's C interface without its Python one: the loader that TF Serving has.
THROUGH_C = """
import ctypes, json, os, sys
import numpy as np

package, folder, images = sys.argv[1], sys.argv[2].encode(), np.load(sys.argv[3])
ctypes.CDLL(os.path.join(package, "libtensorflow_framework.so.2"), ctypes.RTLD_GLOBAL)
c = ctypes.CDLL(os.path.join(package, "libtensorflow_cc.so.2"))

class Output(ctypes.Structure):
    _fields_ = [("operation", ctypes.c_void_p), ("index", ctypes.c_int)]

def function(name, result, *arguments):
    found = getattr(c, name)
    found.restype, found.argtypes = result, arguments
    return found

pointer, text = ctypes.c_void_p, ctypes.c_char_p
status = function("TF_NewStatus", pointer)()
graph = function("TF_NewGraph", pointer)()
options = function("TF_NewSessionOptions", pointer)()

def check():
    if function("TF_GetCode", ctypes.c_int, pointer)(status):
        raise SystemExit(function("TF_Message", text, pointer)(status).decode())

tags = (text * 1)(b"serve")
session = function("TF_LoadSessionFromSavedModel", pointer, pointer, pointer, text,
                   ctypes.POINTER(text), ctypes.c_int, pointer, pointer, pointer)(
    options, None, folder, tags, 1, graph, None, status)
check()
by_name = function("TF_GraphOperationByName", pointer, pointer, text)

def output(name):
    node, _, index = name.partition(":")
    return Output(by_name(graph, node.encode()), int(index))

names = json.loads(sys.argv[4])
allocate = function("TF_AllocateTensor", pointer, ctypes.c_int, ctypes.POINTER(ctypes.c_int64),
                    ctypes.c_int, ctypes.c_size_t)
data = function("TF_TensorData", pointer, pointer)
tensor = allocate(4, (ctypes.c_int64 * images.ndim)(*images.shape), images.ndim, images.nbytes)
ctypes.memmove(data(tensor), images.tobytes(), images.nbytes)
inputs, fed = (Output * 1)(output(names["input"])), (pointer * 1)(tensor)
wanted = sorted(names["outputs"])
outputs = (Output * len(wanted))(*(output(names["outputs"][name]) for name in wanted))
results = (pointer * len(wanted))()
function("TF_SessionRun", None, pointer, pointer, pointer, pointer, ctypes.c_int, pointer, pointer,
         ctypes.c_int, pointer, ctypes.c_int, pointer, pointer)(
    session, None, inputs, fed, 1, outputs, results, len(wanted), None, 0, None, status)
check()
size = function("TF_TensorByteSize", ctypes.c_size_t, pointer)
answers = {}
for name, result in zip(wanted, results):
    raw = ctypes.string_at(data(result), size(result))
    values = np.frombuffer(raw, np.int64 if name == "label" else np.float32)
    one_each = len(values) == len(images)
    answers[name] = (values if one_each else values.reshape(len(images), -1)).tolist()
assert "tensorflow" not in sys.modules
print(json.dumps(answers))
"""


@pytest.fixture
def image_file(images, tmp_path):
    path = tmp_path / "images.npy"
    np.save(path, images)
    return path


def run(program, *arguments):
    result = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def compare(answers, held, images):
    expected = held.signatures["serving_default"](images=tf.constant(images))
    assert set(answers) == set(expected)
    for name, value in expected.items():
        np.testing.assert_allclose(answers[name], value, rtol=1e-5, atol=2e-6, err_msg=name)


@pytest.mark.parametrize("method", EVERY)
def test_through_the_c_library(exports, images, image_file, method):
    package = pathlib.Path(tf.__file__).parent
    if not (package / "libtensorflow_cc.so.2").is_file():
        pytest.skip("needs libtensorflow_cc.so.2, which this TensorFlow does not bring")
    held = exports(method)
    signature = held.signatures["serving_default"]
    names = _tensor_names(held.path)
    answers = run(THROUGH_C, package, held.path, image_file, json.dumps(names))
    assert set(answers) == set(signature.structured_outputs)
    compare(answers, held, images)


def _tensor_names(path):
    from s2d_tf import export

    definition = export.check(path).meta_graphs[0].signature_def["serving_default"]
    return {
        "input": definition.inputs["images"].name,
        "outputs": {name: info.name for name, info in definition.outputs.items()},
    }
