"""The same answers in other runtimes: ONNX and LiteRT files.

Both take `images`, uint8 `[batch, height, width, channels]`, as `serving_default` does, and answer
with the same named outputs. All that `uncertainty` uses is elementary, so the files hold only the
standard operators.
"""

import importlib
import logging
import os
import tempfile

import tensorflow as tf

from s2d_tf.export.answers import answer_function, check_predictor
from s2d_tf.export.saved_model import describe, write_description
from s2d_tf.export.specialize import Specialized
from s2d_tf.export.versions import write_version

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
    converter = _optional("tf2onnx", "onnx")
    logging.getLogger("tf2onnx").setLevel(logging.WARNING)

    def convert(signature, spec):
        proto, _ = converter.convert.from_function(
            signature.function, input_signature=[spec], opset=OPSET
        )
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

    def convert(signature, spec):
        # Through a SavedModel, since only that way the file keeps the names of the outputs.
        with tempfile.TemporaryDirectory() as folder:
            function = signature.function.get_concrete_function(spec)
            tf.saved_model.save(signature, folder, signatures={"serving_default": function})
            converter = tf.lite.TFLiteConverter.from_saved_model(
                folder, signature_keys=["serving_default"]
            )
            converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS]
            return converter.convert()

    return _save(model, directory, class_names, metadata, LITERT_FILE, convert)


class _Signature(tf.Module):
    """The one function of a portable file."""

    def __init__(self, model):
        super().__init__()
        spec = tf.TensorSpec([None, *model.image_shape], tf.float32, name="images")
        self.answers = Specialized(answer_function(model, reject=False), spec)
        self.function = tf.function(
            lambda images: self.answers(tf.cast(images, tf.float32)), autograph=False
        )


def _save(model, directory, class_names, metadata, file_name, convert):
    check_predictor(model)
    description = describe(model, class_names, metadata)
    spec = tf.TensorSpec([None, *model.image_shape], tf.uint8, name="images")

    def write(folder):
        (folder / file_name).write_bytes(convert(_Signature(model), spec))
        write_description(folder, description)

    return write_version(directory, write)


def _optional(module, extra):
    # tf2onnx warns of every optional accelerator that it does not find.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"This needs {module}, which is not installed ({error}): pip install 's2d_tf[{extra}]'."
        ) from None
