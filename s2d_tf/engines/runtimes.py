"""A prediction function in each runtime: TensorFlow, TensorFlow with XLA, ONNX Runtime."""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from s2d_tf import files
from s2d_tf.data import location

SIZES = (1, 4, 16, 64, 256)
"""Batch sizes that XLA compiles for; others are padded to the next, larger ones split."""

OPSET = 17
"""Version of the ONNX operators; onnxruntime has them since 1.12."""

KEPT_FILES = 16
"""Converted networks that stay in the cache folder, the latest used."""


def available() -> list[str]:
    """Names of the runtimes that can be used here."""
    packages = ("onnxruntime", "tf2onnx")
    onnx = all(importlib.util.find_spec(name) is not None for name in packages)
    return ["tensorflow", "xla", *(["onnx"] if onnx else [])]


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

    content = _onnx_content(call, specs)
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


RUNTIMES = {"tensorflow": tensorflow, "xla": xla, "onnx": onnx}


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


def _onnx_content(call: Callable, specs: list[tf.TensorSpec]) -> bytes:
    """An ONNX file of a function, from the cache folder if it was converted before."""
    function = tf.function(call, input_signature=specs, autograph=False)
    graph = function.get_concrete_function().graph.as_graph_def()
    digest = hashlib.sha256(f"{tf.__version__} {OPSET} {specs}".encode())
    digest.update(graph.SerializeToString(deterministic=True))
    path = location.cache_dir() / "engines" / f"{digest.hexdigest()}.onnx"
    try:
        content = path.read_bytes()
        os.utime(path)
        return content
    except OSError:
        content = convert_to_onnx(function)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content)
        stored = sorted(path.parent.glob("*.onnx"), key=lambda each: each.stat().st_mtime)
        for old in stored[:-KEPT_FILES]:
            old.unlink(missing_ok=True)
    except OSError:
        pass  # A folder that cannot be written to makes it slower, not wrong.
    return content


def converter() -> types.ModuleType:
    """The module `tf2onnx`, or an `ImportError` that says what to install."""
    # tf2onnx warns of every optional accelerator that it does not find.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tf2onnx
    except ImportError as error:
        raise ImportError(
            f"tf2onnx: expected the package, received {error}. Run pip install 's2d_tf[onnx]'."
        ) from None
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)
    return tf2onnx


def convert_to_onnx(function: Any) -> bytes:
    """An ONNX file of a `tf.function` with an input signature that answers a dict.

    Raises:
        ValueError: ONNX has no operator for something that the function does.
    """
    proto, _ = converter().convert.from_function(function, function.input_signature, opset=OPSET)
    missing = _unknown_operators(proto.graph)
    if missing:  # tf2onnx only logs them, and the file cannot be loaded
        raise ValueError(
            "model: expected operations that ONNX has operators for, received "
            f"{', '.join(sorted(missing))}. Export a SavedModel."
        )
    for value in [*proto.graph.input, *proto.graph.output]:
        dimensions = value.type.tensor_type.shape.dim
        free = [dim for dim in dimensions if not dim.HasField("dim_value")] or dimensions[:1]
        free[0].dim_param = "batch"
    return proto.SerializeToString()


def _unknown_operators(graph):
    import onnx

    found = {node.op_type for node in graph.node if not onnx.defs.has(node.op_type, node.domain)}
    bodies = [attribute.g for node in graph.node for attribute in node.attribute]
    return found.union(*(_unknown_operators(body) for body in bodies if body.node))
