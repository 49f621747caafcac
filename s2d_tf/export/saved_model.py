"""A SavedModel that TF Serving loads as it is, with its description and warm-up requests."""

import json
import pathlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from s2d_tf import __version__, files
from s2d_tf._types import PathLike
from s2d_tf.export.signatures import Signatures
from s2d_tf.export.version_folders import CLASSES, DESCRIPTION, digests, write_version
from s2d_tf.models import Predictor
from s2d_tf.models.contract import Contract

WARMUP = "assets.extra/tf_serving_warmup_requests"
WARMUP_SIZES = (1, 8, 32)
MAX_WARMUP_VALUES = 1 << 20
"""Warm-up batches of more than one example have at most this many values: the file stays small."""


def save(
    model: Predictor,
    directory: PathLike,
    class_names: Sequence[str] | None = None,
    metadata: dict | None = None,
) -> pathlib.Path:
    """Writes the next version of a model for TF Serving, `s2d serve` or plain TensorFlow.

    The signatures follow from the model's `contract`. A model of raw pixels has `serving_default`
    (`images`, uint8 `[batch, height, width, channels]`), `serve_float` (the same in float32) and
    `serve_encoded` (`image_bytes`, JPEG or PNG files of any size `[batch]`; for models of gray or
    RGB images of a fixed size). Any other model has `serving_default` alone, with its own inputs by
    name. Each answers a dict of `probabilities`, `label`, `confidence`, `total_uncertainty`,
    `data_uncertainty` and `knowledge_uncertainty`. Answers are deterministic and do not depend on
    the batch. A request with NaN, with numbers outside the model's range, with a damaged file, or
    whose answer is not a number, fails as a whole.

    Any model can be exported. `load` and `s2d serve` accept an operation outside of their closed
    list only from files that you trust (`trust=True`).

    Args:
        model: any `models.Predictor`.
        directory: the model's folder, which holds one numbered folder for each version. A server
            that watches it sees the new version only when it is complete.
        class_names: one name for each class, kept as `assets/classes.txt`; default: the model's
            own, which `zoo.load` sets.
        metadata: dict for `assets/model.json`; default: the model's own, which `zoo.load` sets to
            the entry's record.

    Returns:
        `pathlib.Path` of the version folder.

    Example:

    >>> # A model of three classes that learned from float images; one of raw pixels takes uint8.
    >>> folder = export.save(model, "exported", class_names=["cat", "dog", "owl"])
    >>> serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    >>> sorted(serve(images=tf.constant(images, tf.float32)))[:3]
    ['confidence', 'data_uncertainty', 'knowledge_uncertainty']
    """
    description = describe(model, class_names, metadata)

    def write(folder):
        signatures = Signatures(model)
        functions = signatures.functions()
        tf.saved_model.save(signatures, str(folder), signatures=functions)
        (folder / WARMUP).parent.mkdir()
        with tf.io.TFRecordWriter(str(folder / WARMUP)) as writer:
            for name, inputs in warmup_requests(model.contract, functions):
                writer.write(prediction_log(pathlib.Path(directory).name or "model", name, inputs))
        if description["class_names"]:
            lines = "".join(f"{name}\n" for name in description["class_names"])
            files.write_text(folder / CLASSES, lines)
        files.write_json(folder / DESCRIPTION, description | {"files": digests(folder)})

    return write_version(directory, write)


def describe(model: Predictor, class_names: Sequence[str] | None, metadata: dict | None) -> dict:
    """What a reader of exported files may want to know about the model, checked."""
    if not isinstance(model, Predictor):
        raise ValueError(
            f"model: expected a models.Predictor, received {type(model).__name__}. "
            "Cast a Keras classifier with models.S2DClassifier.from_classifier."
        )
    model.check_fitted()
    class_names = model.class_names if class_names is None else class_names
    metadata = model.metadata if metadata is None else metadata
    if class_names is not None:
        class_names = [str(name) for name in class_names]
        if len(class_names) != model.num_classes or any("\n" in name for name in class_names):
            raise ValueError(
                f"class_names: expected one line of text for each of {model.num_classes} "
                f"classes, received {len(class_names)}, first {class_names[:3]}. Pass one name for "
                "each class."
            )
    description = {
        "s2d_tf": __version__,
        "tensorflow": tf.__version__,
        "kind": model.kind,
        "num_members": int(model.num_members),
        "num_classes": int(model.num_classes),
        "inputs": model.contract.to_dict(),
        "image_shape": model.image_shape and list(model.image_shape),
        "class_names": class_names,
        "metadata": metadata or {},
    }
    try:
        json.dumps(description, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"metadata: expected a dict that JSON can hold, received {error}. Pass plain values."
        ) from None
    return description


def warmup_requests(
    contract: Contract, signature_names: Iterable[str]
) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Requests of a few batch sizes for each signature, by its name, with the inputs by theirs.

    TF Serving runs them before a new version gets real ones: otherwise the first request waits for
    the graph's start-up. A model of inputs of free size has none.
    """
    shapes = [tensor.shape for tensor in contract.tensors]
    if any(None in shape for shape in shapes):
        return
    most = MAX_WARMUP_VALUES // sum(int(np.prod(shape)) for shape in shapes)
    for count in (size for size in WARMUP_SIZES if size <= max(1, most)):
        flat = contract.flatten(contract.sample(count))
        inputs = dict(zip((each.name for each in contract.tensors), flat, strict=True))
        if contract.takes_raw_pixels:
            ((name, images),) = inputs.items()
            inputs = {name: images.astype(np.uint8)}
            yield "serve_float", {name: images.astype(np.float32)}
            if "serve_encoded" in signature_names:
                for encode in (tf.io.encode_jpeg, tf.io.encode_png):
                    encoded = [encode(image).numpy() for image in inputs[name]]
                    yield "serve_encoded", {"image_bytes": np.array(encoded, object)}
        yield "serving_default", inputs


def prediction_log(model_name: str, signature_name: str, inputs: dict[str, np.ndarray]) -> bytes:
    """A `tensorflow.serving.PredictionLog` message with one predict request, serialized.

    It is written field by field, since the package that defines it is heavy and not otherwise
    needed.
    """
    # By the field numbers of TF Serving's prediction_log.proto, predict.proto and model.proto.
    request = _field(1, _field(1, model_name.encode()) + _field(3, signature_name.encode()))
    for name, value in inputs.items():  # PredictRequest: model_spec, a map of inputs
        tensor = tf.make_tensor_proto(value).SerializeToString()
        request += _field(2, _field(1, name.encode()) + _field(2, tensor))
    return _field(6, _field(1, request))  # PredictionLog.predict_log.request


def _field(number, content):
    """A length-delimited field of the protocol buffers' wire format."""
    length, encoded = len(content), bytearray([number << 3 | 2])
    while length > 0x7F:
        encoded.append(length & 0x7F | 0x80)
        length >>= 7
    return bytes([*encoded, length]) + content
