"""Warm-up requests, which TF Serving runs before a new version gets real ones.

Without them the first request waits for the graph's start-up, which the others do not. The
file is a TFRecord of `tensorflow.serving.PredictionLog` messages. They are written here field by
field, since the package that defines them is heavy and not otherwise needed; TensorFlow has the
tensors inside them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from s2d_tf._types import Shape

if TYPE_CHECKING:
    from s2d_tf.models.contract import Contract

FILE = "assets.extra/tf_serving_warmup_requests"
BATCH_SIZES = (1, 8, 32)
MAX_VALUES = 1 << 20
"""Larger batches than of one example have at most so many values, unless they are compiled: the
file stays small."""

MAX_COMPILED_SIZES = 8
"""Each batch size that XLA compiles for is a program of its own, in memory and in loading time."""


def write(
    path: pathlib.Path, model_name: str, requests: Iterable[tuple[str, dict[str, np.ndarray]]]
) -> None:
    """Writes `requests`, pairs of a signature's name and a dict of arrays, as one file."""
    path.parent.mkdir(exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for signature_name, inputs in requests:
            writer.write(prediction_log(model_name, signature_name, inputs))


def prediction_log(model_name: str, signature_name: str, inputs: dict[str, np.ndarray]) -> bytes:
    """A `PredictionLog` message with one predict request, serialized."""
    # By the field numbers of TF Serving's prediction_log.proto, predict.proto and model.proto.
    request = _field(1, _field(1, model_name.encode()) + _field(3, signature_name.encode()))
    for name, value in inputs.items():  # PredictRequest: model_spec, a map of inputs
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))  # PredictionLog.predict_log.request


def requests(
    contract: Contract,
    signature_names: Iterable[str],
    batch_sizes: Sequence[int] = BATCH_SIZES,
    compiled_sizes: Sequence[int] = (),
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Requests of a few batch sizes for each signature, where all sizes are known.

    Args:
        contract: what the model takes.
        signature_names: those that it has.
        batch_sizes: how many examples the requests have.
        compiled_sizes: those that are compiled when they first come: requests of these, too.
    """
    if contract.image is not None and contract.takes_raw_pixels:
        shape = contract.image.shape
        yield from image_requests(shape, signature_names, batch_sizes, compiled_sizes)
        return
    shapes = [tensor.shape for tensor in contract.tensors]
    for size in _batch_sizes(shapes, batch_sizes, compiled_sizes):
        flat = contract.flatten(contract.sample(size))
        names = [tensor.name for tensor in contract.tensors]
        yield "serving_default", dict(zip(names, flat, strict=True))


def image_requests(
    image_shape: Shape,
    signature_names: Iterable[str],
    batch_sizes: Sequence[int] = BATCH_SIZES,
    compiled_sizes: Sequence[int] = (),
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Requests of raw pixels: bytes, numbers and files."""
    random = np.random.RandomState(0)
    for size in _batch_sizes([image_shape], batch_sizes, compiled_sizes):
        images = random.randint(0, 256, [size, *image_shape]).astype(np.uint8)
        if "serving_default" in signature_names:
            yield "serving_default", {"images": images}
        if "serve_float" in signature_names:
            yield "serve_float", {"images": images.astype(np.float32)}
        if "serve_encoded" in signature_names:
            for encode in (tf.io.encode_jpeg, tf.io.encode_png):
                files = [encode(image).numpy() for image in images]
                yield "serve_encoded", {"image_bytes": np.array(files, object)}


def _batch_sizes(shapes, batch_sizes, compiled_sizes):
    if any(size is None for shape in shapes for size in shape):
        return []  # whatever size a network can take, it may not be ours
    values = sum(int(np.prod(tuple(shape))) for shape in shapes)
    small = [size for size in batch_sizes if size == 1 or size * values <= MAX_VALUES]
    return sorted({*small, *compiled_sizes})


def _field(number, content):
    """A length-delimited field of the protocol buffers' wire format."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _varint(value):
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
