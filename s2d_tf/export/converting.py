"""A function as a file of another runtime: ONNX and LiteRT."""

from __future__ import annotations

import hashlib
import logging
import os
import re
import tempfile
import types
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from s2d_tf import files
from s2d_tf.data import location

OPSET = 17
"""Version of the ONNX operators; onnxruntime has them since 1.12."""

KEPT_FILES = 16
"""Converted networks that stay in the cache folder, the latest used."""


def convert(call: Callable, specs: list[tf.TensorSpec], suffix: str) -> bytes:
    """A function as another runtime's file, from the cache folder if it was converted before.

    Args:
        call: takes tensors and answers a dict.
        specs: `tf.TensorSpec` of each.
        suffix: "onnx" or "tflite".
    """
    function = tf.function(call, input_signature=specs, autograph=False)
    graph = function.get_concrete_function().graph.as_graph_def()
    digest = hashlib.sha256(f"{tf.__version__} {OPSET} {specs}".encode())
    digest.update(graph.SerializeToString(deterministic=True))
    path = location.cache_dir() / "engines" / f"{digest.hexdigest()}.{suffix}"
    try:
        content = path.read_bytes()
        os.utime(path)
        return content
    except OSError:
        content = {"onnx": convert_to_onnx, "tflite": convert_to_litert}[suffix](function)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        files.write_bytes(path, content)
        stored = sorted(path.parent.glob(f"*.{suffix}"), key=lambda each: each.stat().st_mtime)
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


def convert_to_litert(function: Any, int8: bool = False, owner: Any = None) -> bytes:
    """A LiteRT file of a `tf.function` with an input signature that answers a dict.

    Args:
        function: the function.
        int8: round weights, and activations by the range that they have in each request.
        owner: trackable object that holds what the function needs; default: it needs nothing.

    Raises:
        ValueError: LiteRT has no operator for something that the function does.
    """
    # Through a SavedModel, since only that way the file keeps the names of the outputs.
    with tempfile.TemporaryDirectory() as folder:
        owner = tf.Module() if owner is None else owner
        tf.saved_model.save(owner, folder, signatures={"serving_default": function})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=["serving_default"]
        )
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
        if int8:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        try:
            return converter.convert()
        except Exception as error:  # of a class that TensorFlow keeps to itself
            missing = sorted(set(re.findall(r"'(tf\.\w+)' op is neither", str(error))))
            if not missing:
                raise
            raise ValueError(
                "model: expected operations that LiteRT has, received "
                f"{', '.join(missing)}. Export a SavedModel."
            ) from None


def _unknown_operators(graph):
    import onnx

    found = {node.op_type for node in graph.node if not onnx.defs.has(node.op_type, node.domain)}
    bodies = [attribute.g for node in graph.node for attribute in node.attribute]
    return found.union(*(_unknown_operators(body) for body in bodies if body.node))
