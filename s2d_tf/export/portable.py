"""The same answers in other runtimes: ONNX and LiteRT files.

Both take what `serving_default` takes and answer with the same named outputs. Everything that
`uncertainty` uses is elementary, so the files hold only the standard operators. A network that
needs others is rejected: above all those that split and look up texts.
"""

import logging
import pathlib
import re
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.export.saved_model import describe
from s2d_tf.export.signatures import Signatures
from s2d_tf.models import Predictor

OPSET = 17
"""Version of the ONNX operators; onnxruntime has them since 1.12."""


def save_onnx(
    model: Predictor,
    path: PathLike,
    class_names: Sequence[str] | None = None,
    metadata: dict | None = None,
) -> pathlib.Path:
    """Writes an ONNX file; needs the extra `onnx`.

    Args:
        model, class_names, metadata: as for `save`; the description is a JSON file beside it.
        path: the file, such as "m.onnx"; `m.onnx.json` has the description.

    Returns:
        `pathlib.Path` of the file.

    Raises:
        ValueError: ONNX has no operator for something that the network does.

    Example:

    >>> export.save_onnx(model, "m.onnx").name
    'm.onnx'
    """
    try:
        import tf2onnx
    except ImportError as error:
        raise ImportError(
            f"tf2onnx: expected the package, received {error}. Run pip install 's2d_tf[onnx]'."
        ) from None
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)

    def convert(function, owner):
        proto, _ = tf2onnx.convert.from_function(function, function.input_signature, opset=OPSET)
        _check_operators("ONNX", _unknown_operators(proto.graph))  # tf2onnx only logs them
        for value in [*proto.graph.input, *proto.graph.output]:
            dimensions = value.type.tensor_type.shape.dim
            free = [dim for dim in dimensions if not dim.HasField("dim_value")] or dimensions[:1]
            free[0].dim_param = "batch"
        return proto.SerializeToString()

    return _save(model, path, class_names, metadata, ".onnx", convert)


def save_litert(
    model: Predictor,
    path: PathLike,
    class_names: Sequence[str] | None = None,
    metadata: dict | None = None,
) -> pathlib.Path:
    """Writes a LiteRT file with built-in operations only.

    The interpreter is the extra `litert`; writing needs TensorFlow alone.

    Args:
        model, class_names, metadata: as for `save`.
        path: the file, such as "m.tflite"; `m.tflite.json` has the description.

    Returns:
        `pathlib.Path` of the file.

    Raises:
        ValueError: LiteRT has no operator for something that the network does.

    Example:

    >>> export.save_litert(model, "m.tflite").name
    'm.tflite'
    """

    def convert(function, owner):
        # Through a SavedModel, since only that way the file keeps the names of the outputs.
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(owner, folder, signatures={"serving_default": function})
            converter = tf.lite.TFLiteConverter.from_saved_model(
                folder, signature_keys=["serving_default"]
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            try:
                return converter.convert()
            except Exception as error:  # of a class that TensorFlow keeps to itself
                _check_operators("LiteRT", re.findall(r"'(tf\.\w+)' op is neither", str(error)))
                raise

    return _save(model, path, class_names, metadata, ".tflite", convert)


def _save(
    model: Predictor,
    path: PathLike,
    class_names: Sequence[str] | None,
    metadata: dict | None,
    suffix: str,
    convert: Callable[[Any, Signatures], bytes],
) -> pathlib.Path:
    path = pathlib.Path(path).expanduser()
    UserError.unless(
        path.suffix == suffix and not path.is_dir(),
        f"path: expected a file that ends in {suffix!r}, received {str(path)!r}"
        f"{', a folder' * path.is_dir()}. Name the file.",
    )
    description = describe(model, class_names, metadata)
    texts = [each.name for each in model.contract.tensors if each.dtype == "string"]
    UserError.unless(
        not texts,
        "model: expected inputs of numbers, since neither ONNX nor LiteRT has operators "
        f"that split texts, received the texts {texts}. Export a SavedModel.",
    )
    signatures = Signatures(model, reject=False)
    content = convert(signatures.functions()["serving_default"], signatures)
    path.parent.mkdir(parents=True, exist_ok=True)
    files.write_bytes(path, content)
    files.write_json(path.with_name(f"{path.name}.json"), description)
    return path


def _check_operators(runtime, missing):
    if missing:
        raise ValueError(
            f"model: expected operations that {runtime} has, received "
            f"{', '.join(sorted(set(missing)))}. Export a SavedModel."
        ) from None


def _unknown_operators(graph):
    import onnx

    found = {node.op_type for node in graph.node if not onnx.defs.has(node.op_type, node.domain)}
    bodies = [attribute.g for node in graph.node for attribute in node.attribute]
    return found.union(*(_unknown_operators(body) for body in bodies if body.node))
