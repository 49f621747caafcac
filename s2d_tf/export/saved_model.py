"""A SavedModel that TF Serving loads as it is."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Sequence

import tensorflow as tf

from s2d_tf import __version__, files
from s2d_tf._types import PathLike
from s2d_tf.export import operations, warmup
from s2d_tf.export.signatures import Signatures
from s2d_tf.export.version_folders import write_version
from s2d_tf.models import Predictor

CLASSES = "classes.txt"
DESCRIPTION = "model.json"


def save(
    model: Predictor,
    directory: PathLike,
    class_names: Sequence[str] | None = None,
    metadata: dict | None = None,
    xla_batch_sizes: Sequence[int] = (),
) -> pathlib.Path:
    """Writes the next version of a model for TF Serving, `s2d serve` or plain TensorFlow.

    The signatures follow from the model's `contract`. A model of raw pixels has `serving_default`
    (`images`, uint8 `[batch, height, width, channels]`), `serve_float` (the same in float32) and
    `serve_encoded` (`image_bytes`, JPEG or PNG files of any size `[batch]`; for models of gray or
    RGB images of a fixed size). Any other model has `serving_default` alone, with its own inputs by
    name. Each answers a dict of `probabilities`, `label`, `confidence`, `total_uncertainty`,
    `data_uncertainty` and `knowledge_uncertainty`. Answers are deterministic and do not depend on
    the batch. A request with NaN, with numbers outside the model's range or whose answer is no
    number, or with a damaged file fails as a whole.

    Args:
        model: any `models.Predictor`.
        directory: the model's folder, which holds one numbered folder for each version. A server
            that watches it sees the new version only when it is complete.
        class_names: one name for each class, kept as `assets/classes.txt`; default: the model's
            own, which `zoo.load` sets.
        metadata: dict for `assets/model.json`; default: the model's own, which `zoo.load` sets to
            the entry's record.
        xla_batch_sizes: batch sizes for which XLA compiles the network when the model is loaded;
            batches of other sizes run as without. TF Serving needs
            `--xla_cpu_compilation_enabled=true` for such a model, and these sizes as its
            `allowed_batch_sizes`; TensorFlow in Python and `s2d serve` need nothing.

    Returns:
        `pathlib.Path` of the version folder.

    Example:

    >>> # A model of three classes that learned from float images; one of raw pixels takes uint8.
    >>> folder = export.save(model, "exported", class_names=["cat", "dog", "owl"])
    >>> serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    >>> sorted(serve(images=tf.constant(images, tf.float32)))[:3]
    ['confidence', 'data_uncertainty', 'knowledge_uncertainty']
    """

    def write(folder):
        signatures = Signatures(model, xla_batch_sizes=xla_batch_sizes)
        functions = signatures.functions()
        tf.saved_model.save(signatures, str(folder), signatures=functions)
        requests = warmup.requests(model.contract, functions, compiled_sizes=tuple(xla_batch_sizes))
        warmup.write(folder / warmup.FILE, pathlib.Path(directory).name or "model", requests)
        operations.check(folder)

    facts = {"xla_batch_sizes": sorted(xla_batch_sizes)} if xla_batch_sizes else {}
    return write_model(model, directory, class_names, metadata, write, facts)


def write_model(
    model: Predictor,
    directory: PathLike,
    class_names: Sequence[str] | None,
    metadata: dict | None,
    write: Callable[[pathlib.Path], None],
    facts: dict | None = None,
) -> pathlib.Path:
    """Writes the next version: what `write` puts into its folder, and the model's description.

    The description is `assets/model.json`, to which `facts` are added, and, where there are class
    names, `assets/classes.txt`.
    """
    if not isinstance(model, Predictor):
        raise ValueError(
            f"model: expected a models.Predictor, received {type(model).__name__}. "
            "Cast a Keras classifier with models.S2DClassifier.from_classifier."
        )
    model.check_fitted()
    description = _describe(model, class_names, metadata) | (facts or {})

    def write_all(folder):
        write(folder)
        files.write_json(folder / "assets" / DESCRIPTION, description)
        if description["class_names"]:
            lines = "".join(f"{name}\n" for name in description["class_names"])
            files.write_text(folder / "assets" / CLASSES, lines)

    return write_version(directory, write_all)


def _describe(model, class_names, metadata):
    """What a reader of the exported files may want to know of the model, checked."""
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
            f"metadata: expected a dict that JSON can hold, received another ({error}). Pass "
            "plain values."
        ) from None
    return description
