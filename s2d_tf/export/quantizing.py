"""Convolutions in int8, for processors that multiply bytes faster than floats.

The layers from the input to the last convolution are quantized: weights by channel, activations by
the range that they have on some given inputs. The head and the uncertainties stay in float32: they
differ by less than int8 can hold, and take next to no time.
"""

from __future__ import annotations

import pathlib
import tempfile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import onnx

    from s2d_tf.models.contract import Contract

PRECISIONS = ("float32", "int8")

BATCH_SIZE = 32
MIN_EXAMPLES = 16
"""Fewer say next to nothing about ranges."""


def check_precision(precision: str) -> None:
    """Rejects a precision that files are not written in."""
    if precision not in PRECISIONS:
        raise ValueError(
            f"precision: expected one of {PRECISIONS}, received {precision!r}. Choose one of these."
        )


def check_calibration(calibration: np.ndarray | None, contract: Contract) -> np.ndarray:
    """Images whose activations give the ranges, as `serving_default` takes them."""
    if calibration is None or contract.image is None:
        received = None if calibration is None else f"a model of {contract.form()[1]}"
        raise ValueError(
            "calibration: expected images as the model takes them, for a model of images, received "
            f"{received}. Pass a few hundred training images, or precision='float32'."
        )
    calibration = np.asarray(calibration)
    expected = (len(calibration), *contract.image.shape)
    if calibration.shape != expected or len(calibration) < MIN_EXAMPLES:
        raise ValueError(
            f"calibration: expected at least {MIN_EXAMPLES} images of shape "
            f"{contract.image.shape}, received {calibration.shape}. Pass a few hundred training "
            "images."
        )
    dtype = np.uint8 if contract.takes_raw_pixels else np.float32
    return calibration.astype(dtype, copy=False)


def onnx_to_int8(content: bytes, images: np.ndarray) -> bytes:
    """An ONNX file with its convolutions, and what is between them, in int8.

    Args:
        content: the file in float32, with one input.
        images: of `check_calibration`.
    """
    import onnx
    from onnxruntime import quantization

    model = onnx.load_from_string(content)
    (given,) = model.graph.input
    parts = [images[i : i + BATCH_SIZE] for i in range(0, len(images), BATCH_SIZE)]

    class Reader(quantization.CalibrationDataReader):
        def __init__(self) -> None:
            self.feeds = iter([{given.name: part} for part in parts])

        def get_next(self):
            return next(self.feeds, None)

    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "int8.onnx")
        quantization.quantize_static(
            model,
            path,
            Reader(),
            quant_format=quantization.QuantFormat.QDQ,
            per_channel=True,
            activation_type=quantization.QuantType.QUInt8,
            weight_type=quantization.QuantType.QInt8,
            nodes_to_exclude=_behind_convolutions(model.graph),
        )
        return path.read_bytes()


def _behind_convolutions(graph: onnx.GraphProto) -> list[str]:
    """Names of the nodes that no convolution needs: pooling, the head, the uncertainties."""
    needed: set[str] = set()
    for node in reversed(graph.node):  # in the order in which they run
        if node.op_type == "Conv" or needed.intersection(node.output):
            needed.update(node.input)
    kept = [node for node in graph.node if node.op_type == "Conv" or needed & set(node.output)]
    names = {node.name for node in kept}
    return [node.name for node in graph.node if node.name not in names]
