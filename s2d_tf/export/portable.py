"""The same answers in other runtimes: ONNX and LiteRT files.

Both take what `serving_default` takes and answer with the same named outputs. All that
`uncertainty` uses is elementary, so the files hold only the standard operators.
"""

import logging
import os
import tempfile

import tensorflow as tf

from s2d_tf.export.saved_model import write_model
from s2d_tf.export.signatures import Signatures

ONNX_FILE = "model.onnx"
LITERT_FILE = "model.tflite"
OPSET = 17
"""Version of the ONNX operators; onnxruntime has them since 1.12."""


def save_onnx(model, directory, class_names=None, metadata=None):
    """Writes the next version as `model.onnx`; needs the extra `onnx`.

    Args:
        model, directory, class_names, metadata: as for `save`.

    Returns:
        `pathlib.Path` of the version folder.
    """
    # tf2onnx warns of every optional accelerator that it does not find.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        import tf2onnx
    except ImportError as error:
        raise ImportError(
            f"tf2onnx: expected the package, received {error}. Run pip install 's2d_tf[onnx]'."
        ) from None
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)

    def convert(signatures, function):
        proto, _ = tf2onnx.convert.from_function(function, function.input_signature, opset=OPSET)
        for value in [*proto.graph.input, *proto.graph.output]:
            value.type.tensor_type.shape.dim[0].dim_param = "batch"
        return proto.SerializeToString()

    return _save(model, directory, class_names, metadata, ONNX_FILE, convert)


def save_litert(model, directory, class_names=None, metadata=None):
    """Writes the next version as `model.tflite`, with built-in operations only.

    The interpreter is the extra `litert`; writing needs TensorFlow alone.

    Args:
        model, directory, class_names, metadata: as for `save`.

    Returns:
        `pathlib.Path` of the version folder.
    """

    def convert(signatures, function):
        # Through a SavedModel, since only that way the file keeps the names of the outputs.
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(signatures, folder, signatures={"serving_default": function})
            converter = tf.lite.TFLiteConverter.from_saved_model(
                folder, signature_keys=["serving_default"]
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            return converter.convert()

    return _save(model, directory, class_names, metadata, LITERT_FILE, convert)


def _save(model, directory, class_names, metadata, file_name, convert):
    def write(folder):
        signatures = Signatures(model, reject=False)
        content = convert(signatures, signatures.functions()["serving_default"])
        (folder / file_name).write_bytes(content)

    return write_model(model, directory, class_names, metadata, write)
