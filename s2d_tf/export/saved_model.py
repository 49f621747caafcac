"""A SavedModel that TF Serving loads as it is."""

import json
import pathlib

import tensorflow as tf

from s2d_tf import __version__, files
from s2d_tf.export import operations, warmup
from s2d_tf.export.answers import check_predictor
from s2d_tf.export.signatures import Signatures
from s2d_tf.export.versions import write_version

CLASSES = "classes.txt"
DESCRIPTION = "model.json"


def save(model, directory, class_names=None, metadata=None):
    """Writes the next version of a model for TF Serving, `s2d serve` or plain TensorFlow.

    The signatures are `serving_default` (`images`, uint8 `[batch, height, width, channels]`),
    `serve_float` (the same in float32) and `serve_encoded` (`image_bytes`, JPEG or PNG files of any
    size `[batch]`; for models of gray or RGB images). Each answers a dict of `probabilities`,
    `label`, `confidence`, `total_uncertainty`, `data_uncertainty` and `knowledge_uncertainty`.
    Answers are deterministic and do not depend on the batch. A request with NaN, with pixels whose
    answer is no number, or with a damaged file fails as a whole.

    Args:
        model: any `models.Predictor`.
        directory: the model's folder, which holds one numbered folder for each version. A server
            that watches it sees the new version when all of it is there.
        class_names: one name for each class, kept as `assets/classes.txt`; default: the model's
            own, which `zoo.load` sets.
        metadata: dict for `assets/model.json`; default: the model's own, which `zoo.load` sets to
            the entry's record.

    Returns:
        `pathlib.Path` of the version folder.
    """
    check_predictor(model)
    description = describe(model, class_names, metadata)

    def write(folder):
        signatures = Signatures(model)
        functions = signatures.functions()
        tf.saved_model.save(signatures, str(folder), signatures=functions)
        write_description(folder, description)
        requests = warmup.requests(signatures.image_shape, functions)
        warmup.write(folder / warmup.FILE, pathlib.Path(directory).name or "model", requests)
        operations.check(folder)

    return write_version(directory, write)


def describe(model, class_names=None, metadata=None):
    """What a reader of the exported files may want to know of the model, checked."""
    class_names = model.class_names if class_names is None else class_names
    metadata = model.metadata if metadata is None else metadata
    if class_names is not None:
        class_names = [str(name) for name in class_names]
        if len(class_names) != model.num_classes or any("\n" in name for name in class_names):
            raise ValueError(
                f"class_names must be one line of text for each of {model.num_classes} classes, "
                f"received {len(class_names)}: {class_names[:3]}..."
            )
    description = {
        "s2d_tf": __version__,
        "tensorflow": tf.__version__,
        "kind": model.kind,
        "num_members": int(model.num_members),
        "num_classes": int(model.num_classes),
        "image_shape": [int(size) for size in model.image_shape],
        "class_names": class_names,
        "metadata": metadata or {},
    }
    try:
        json.dumps(description, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"metadata must be a dict that JSON can hold, received another: {error}."
        ) from None
    return description


def write_description(folder, description):
    """Writes `assets/model.json` and, where there are class names, `assets/classes.txt`."""
    files.write_json(folder / "assets" / DESCRIPTION, description)
    if description["class_names"]:
        lines = "\n".join(description["class_names"])
        files.write_text(folder / "assets" / CLASSES, lines + "\n")
