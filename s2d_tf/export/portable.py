"""The same answers in other runtimes: ONNX and LiteRT files.

Both take what `serving_default` takes and answer with the same named outputs. All that
`uncertainty` uses is elementary, so the files hold only the standard operators. A network that
needs others is rejected: those that split and look up texts, above all.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from s2d_tf._types import PathLike
from s2d_tf.export import converting, quantizing
from s2d_tf.export.saved_model import write_model
from s2d_tf.export.signatures import Signatures

if TYPE_CHECKING:
    from s2d_tf.models import Predictor

ONNX_FILE = "model.onnx"
LITERT_FILE = "model.tflite"


def save_onnx(
    model: Predictor,
    directory: PathLike,
    class_names: Sequence[str] | None = None,
    metadata: dict | None = None,
    precision: str = "float32",
    calibration: np.ndarray | None = None,
) -> pathlib.Path:
    """Writes the next version as `model.onnx`; needs the extra `onnx`.

    Args:
        model, directory, class_names, metadata: as for `save`.
        precision: "float32", or "int8" for the convolutions of a model of images. That changes the
            answers: docs/performance.md has by how much, and on which processors it pays.
        calibration: for int8, a few hundred training images as the model takes them, by which the
            ranges of the activations are set.

    Returns:
        `pathlib.Path` of the version folder.

    Raises:
        ValueError: the runtime has no operators for what the network does.

    Example:

    >>> folder = export.save_onnx(model, "onnx")
    >>> sorted(path.name for path in folder.iterdir())
    ['assets', 'model.onnx']
    """
    converting.converter()  # Before anything is written.

    quantizing.check_precision(precision)

    def convert(signatures, function):
        if precision == "float32":
            return converting.convert_to_onnx(function)
        images = quantizing.check_calibration(calibration, signatures.contract)
        return quantizing.onnx_to_int8(converting.convert_to_onnx(function), images)

    return _save(model, directory, class_names, metadata, ONNX_FILE, convert, precision)


def save_litert(
    model: Predictor,
    directory: PathLike,
    class_names: Sequence[str] | None = None,
    metadata: dict | None = None,
    precision: str = "float32",
) -> pathlib.Path:
    """Writes the next version as `model.tflite`, with built-in operations only.

    The interpreter is the extra `litert`; writing needs TensorFlow alone.

    Args:
        model, directory, class_names, metadata: as for `save`.
        precision: "float32", or "int8" for the weights; activations are rounded to int8 by the
            range that they have in each request. That changes the answers: see
            docs/performance.md.

    Returns:
        `pathlib.Path` of the version folder.

    Raises:
        ValueError: the runtime has no operators for what the network does.

    Example:

    >>> folder = export.save_litert(model, "litert")
    >>> sorted(path.name for path in folder.iterdir())
    ['assets', 'model.tflite']
    """

    quantizing.check_precision(precision)

    def convert(signatures, function):
        return converting.convert_to_litert(function, precision == "int8", signatures)

    return _save(model, directory, class_names, metadata, LITERT_FILE, convert, precision)


def _save(model, directory, class_names, metadata, file_name, convert, precision):
    def write(folder):
        texts = [each.name for each in model.contract.tensors if each.dtype == "string"]
        if texts:
            raise ValueError(
                "model: expected inputs of numbers, since neither ONNX nor LiteRT has operators "
                f"that take texts apart, received the texts {texts}. Export a SavedModel."
            )
        signatures = Signatures(model, reject=False)
        content = convert(signatures, signatures.functions()["serving_default"])
        (folder / file_name).write_bytes(content)

    return write_model(model, directory, class_names, metadata, write, {"precision": precision})
