"""A prediction function in each runtime: TensorFlow, with XLA, ONNX Runtime, LiteRT."""

from __future__ import annotations

import functools
import importlib.util
import os
import threading
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from s2d_tf.engines import converting

SIZES = (1, 4, 16, 64, 256)
"""Batch sizes that XLA compiles for; others are padded to the next, larger ones split."""

PACKAGES = {
    "tensorflow": (),
    "xla": (),
    "onnx": ("onnxruntime", "tf2onnx"),
    "litert": ("ai_edge_litert",),
}
"""What each runtime needs besides TensorFlow; the extras have the runtimes' names."""

PORTABLE = ("onnx", "litert")
"""Runtimes that have only their own operators."""


def available() -> list[str]:
    """Names of the runtimes that can be used here."""

    def installed(name):
        return importlib.util.find_spec(name) is not None

    return [name for name, packages in PACKAGES.items() if all(map(installed, packages))]


def tensorflow(call: Callable, specs: list[tf.TensorSpec]) -> Callable:
    """The graph as TensorFlow runs it, for any batch size."""
    function = tf.function(call, input_signature=specs, autograph=False)

    def run(tensors):
        return {name: value.numpy() for name, value in function(*tensors).items()}

    return run


def xla(call: Callable, specs: list[tf.TensorSpec]) -> Callable:
    """The graph compiled by XLA, once for each of `SIZES` when it is first needed."""
    if not all(spec.shape[1:].is_fully_defined() for spec in specs):
        raise ValueError(
            f"engine: expected inputs of one size for XLA, received {specs}. Use another engine."
        )
    function = tf.function(call, jit_compile=True, autograph=False)
    axes = _batch_axes(call, specs)

    def run(tensors):
        arrays = [np.asarray(tensor) for tensor in tensors]
        starts = range(0, len(arrays[0]), SIZES[-1])
        parts = [[array[i : i + SIZES[-1]] for array in arrays] for i in starts]
        found = [_padded(function, part, axes) for part in parts]
        if len(found) == 1:
            return found[0]
        return {name: np.concatenate([f[name] for f in found], axes[name]) for name in axes}

    return run


def onnx(call: Callable, specs: list[tf.TensorSpec]) -> Callable:
    """The graph in ONNX Runtime; the converted file is kept in the cache folder."""
    import onnxruntime

    content = converting.convert(call, specs, "onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    # tf2onnx keeps the order of the inputs.
    given = [value.name for value in session.get_inputs()]

    def run(tensors):
        fed = {name: np.asarray(tensor) for name, tensor in zip(given, tensors, strict=True)}
        return dict(zip(names, session.run(None, fed), strict=True))

    return run


def litert(call: Callable, specs: list[tf.TensorSpec]) -> Callable:
    """The graph in LiteRT; the converted file is kept in the cache folder."""
    from ai_edge_litert import interpreter

    names = [f"input_{i}" for i in range(len(specs))]
    named = [tf.TensorSpec(s.shape, s.dtype, n) for s, n in zip(specs, names, strict=True)]
    content = converting.convert(call, named, "tflite")

    @functools.cache  # Another size costs a new plan, so each has its own.
    def runner(size):
        opened = interpreter.Interpreter(model_content=content, num_threads=num_cores())
        return opened.get_signature_runner("serving_default")

    lock = threading.Lock()  # It has one place for its inputs.

    def run(tensors):
        fed = {name: np.asarray(tensor) for name, tensor in zip(names, tensors, strict=True)}
        with lock:
            return runner(padded_size(len(tensors[0])))(**fed)

    return run


RUNTIMES = {"tensorflow": tensorflow, "xla": xla, "onnx": onnx, "litert": litert}


def num_cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def padded_size(count: int) -> int:
    """The size that XLA compiles for a batch of `count`, or for its largest part."""
    return next((size for size in SIZES if size >= count), SIZES[-1])


def _batch_axes(call: Callable, specs: list[tf.TensorSpec]) -> dict[str, int]:
    """For each answer the axis of the batch: the first one of unknown size."""
    outputs = tf.function(call, autograph=False).get_concrete_function(*specs).structured_outputs
    shapes = {name: tensor.shape.as_list() for name, tensor in outputs.items()}
    return {name: shape.index(None) if None in shape else 0 for name, shape in shapes.items()}


def _padded(function, arrays, axes):
    rows = range(len(arrays[0]))
    missing = padded_size(len(rows)) - len(rows)
    if missing:
        arrays = [np.concatenate([x, np.zeros([missing, *x.shape[1:]], x.dtype)]) for x in arrays]
    found = {name: value.numpy() for name, value in function(*map(tf.constant, arrays)).items()}
    if not missing:
        return found
    return {name: value.take(rows, axes[name]) for name, value in found.items()}
