"""A SavedModel that TF Serving loads as it is: written as the next version, and read back.

A version folder holds the graph, warm-up requests, class names, and a description with the digest
of each file.
"""

import errno
import hashlib
import itertools
import json
import pathlib
import secrets
import shutil
from collections.abc import Callable, Sequence

import tensorflow as tf

from s2d_tf import __version__, files
from s2d_tf._types import PathLike
from s2d_tf.errors import UserError
from s2d_tf.export import operations
from s2d_tf.export.signatures import Signatures, prediction_log, warmup_requests
from s2d_tf.models import Predictor
from s2d_tf.models.inputs import warn_unknown

DESCRIPTION = "assets/model.json"
WARMUP = "assets.extra/tf_serving_warmup_requests"


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

    >>> folder = export.save(model, "exported", class_names=["cat", "dog", "owl"])
    >>> serve = tf.saved_model.load(str(folder)).signatures["serving_default"]
    >>> sorted(serve(images=tf.constant(images)))[:3]
    ['confidence', 'data_uncertainty', 'knowledge_uncertainty']
    """
    UserError.unless(
        pathlib.Path(directory).suffix not in (".onnx", ".tflite"),
        f"directory: expected a folder of versions, received the file {str(directory)!r}. Use "
        "export.save_onnx or export.save_litert.",
    )
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
            files.write_text(
                folder / "assets/classes.txt", "\n".join([*description["class_names"], ""])
            )
        held = description | {"files": digests(folder)}
        files.write_json(folder / DESCRIPTION, held | {"sha256": _own_digest(held)})

    return write_version(directory, write)


def describe(model: Predictor, class_names: Sequence[str] | None, metadata: dict | None) -> dict:
    """What a reader of exported files may want to know about the model, checked."""
    UserError.unless(
        isinstance(model, Predictor),
        f"model: expected a models.Predictor, received {type(model).__name__}. "
        "Cast a Keras classifier with models.S2DClassifier.from_classifier.",
    )
    model.check_fitted()
    model.check_finite()
    warn_unknown(model)
    model.warn_only_cast()
    class_names = model.class_names if class_names is None else class_names
    if class_names is not None:
        class_names = [str(name) for name in class_names]
        UserError.unless(
            len(class_names) == model.num_classes and not any("\n" in name for name in class_names),
            f"class_names: expected one line of text for each of {model.num_classes} "
            f"classes, received {len(class_names)}, first {class_names[:3]}. Pass one name for "
            "each class.",
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
        "metadata": (model.metadata if metadata is None else metadata) or {},
    }
    try:
        json.dumps(description, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"metadata: expected a dict that JSON can hold, received {error}. Pass plain values."
        ) from None
    return description


class Version:
    """An exported version, checked and loaded; made by `load`.

    Attributes:
        folder: the version folder.
        signatures: functions from tensors by name to a dict of answers, by the signature's name.
        definitions: the `SignatureDef` of each signature.
        description: dict of what the model is and takes (`assets/model.json`); empty where a
            SavedModel of another origin has none.
        class_names: one for each class, where the export has them.

    Example:

    >>> folder = export.save(model, "exported")
    >>> version = export.load(folder)
    >>> version.folder.name, list(version.signatures)
    ('1', ['serving_default', 'serve_float', 'serve_encoded'])
    """

    def __init__(self, folder: PathLike, trust: bool = False) -> None:
        self.folder = _version_folder(folder)
        UserError.unless(
            self.folder,
            f"{folder}: expected an exported model, received no saved_model.pb. "
            "`s2d export NAME DIR` writes one.",
        )
        self.description = _read_description(self.folder)
        (meta_graph,) = operations.check(self.folder, trust).meta_graphs
        self._loaded = tf.saved_model.load(str(self.folder))  # The signatures do not keep it alive.
        self.signatures = dict(self._loaded.signatures)
        self.definitions = {name: meta_graph.signature_def[name] for name in self.signatures}
        UserError.unless(
            "serving_default" in self.signatures,
            f"{self.folder}: expected the signature 'serving_default', received "
            f"{sorted(self.signatures)}. Write the model with export.save.",
        )
        self.class_names = tuple(map(str, self.description.get("class_names") or ())) or None

    @property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """What `serving_default` takes, by name."""
        return self.signatures["serving_default"].structured_input_signature[1]

    @property
    def sha256(self) -> str:
        """Hash of all files of the version."""
        text = "".join(f"{name} {value}\n" for name, value in digests(self.folder).items())
        return hashlib.sha256(text.encode()).hexdigest()


def load(directory: PathLike, trust: bool = False) -> Version:
    """Loads an exported version.

    Args:
        directory: a version folder, or the folder of all versions, of which the newest is taken.
        trust: whether to load operations that are not on the closed list of `operations`. A
            SavedModel is a program: pass `True` only if you trust whoever wrote it.

    Raises:
        ValueError: there is no version, or its files are not those that were exported.
        OperationError: it holds operations that are not on the list.

    Example:

    >>> folder = export.save(model, "exported", class_names=["cat", "dog", "owl"])
    >>> version = export.load("exported")
    >>> version.class_names, sorted(version.inputs)
    (('cat', 'dog', 'owl'), ['images'])
    >>> version.signatures["serving_default"](images=tf.constant(images))["label"].shape
    TensorShape([40])
    """
    return Version(directory, trust)


def versions(directory: PathLike) -> list[int]:
    """Numbers of the version folders in `directory`, ascending.

    Example:

    >>> for number in (1, 2):
    ...     pathlib.Path(f"folder/{number}").mkdir(parents=True)
    >>> export.versions("folder")
    [1, 2]
    """
    # The names that TF Serving takes for numbers; a leading zero would be a second name for one.
    found = (path.name for path in pathlib.Path(directory).glob("*") if path.is_dir())
    return sorted(int(name) for name in found if name.isdecimal() and str(int(name)) == name)


def is_exported(where: PathLike) -> bool:
    """Whether a path is that of an exported model.

    Example:

    >>> export.is_exported("wrn_10_2_s2.s2d.digits")
    False
    """
    return _version_folder(where) is not None


def _version_folder(folder):
    """The version folder that a path means: itself, or the newest of those in it; else `None`."""
    folder = pathlib.Path(folder).expanduser()
    found = [folder, *(folder / str(number) for number in reversed(versions(folder)))]
    return next((each for each in found if (each / "saved_model.pb").is_file()), None)


def _read_description(folder):
    """The description, after its digests were compared with the files."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return {}
    try:
        description = dict(files.read_json(path))
        own = description.pop("sha256", None)
        recorded = dict(description.get("files", {}))
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected the description of a model, received {error!r}. Export the model "
            "again."
        ) from None
    if own or recorded:  # Versions before 0.2 have neither.
        recorded[DESCRIPTION] = own
    found = digests(folder) | {DESCRIPTION: _own_digest(description)}
    wrong = [name for name, digest in recorded.items() if found.get(name) != digest]
    UserError.unless(
        not wrong,
        f"{folder}: expected the files that were exported, received others or none in place of "
        f"{wrong}. Copy the folder again, or export the model again.",
    )
    return description


def _own_digest(description):
    return hashlib.sha256(json.dumps(description).encode()).hexdigest()


def digests(folder: pathlib.Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its path in it."""
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): files.sha256(path) for path in found}


def write_version(directory: PathLike, write: Callable) -> pathlib.Path:
    """Writes the next version.

    A server that watches `directory` sees the version only when it is complete and on disk. If
    `write` fails, nothing is left. Two writers get two versions.

    Args:
        directory: the model's folder.
        write: function that fills the hidden folder that it is given.

    Returns:
        The version's folder.
    """
    directory = pathlib.Path(directory).expanduser()
    draft = directory / f"{files.PARTIAL}{secrets.token_hex(4)}"
    try:
        with files.room_for(directory):
            draft.mkdir(parents=True)
            write(draft)
            files.flush_folder(draft)
            return _move_to_next(draft, directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _move_to_next(draft, directory):
    for number in itertools.count(max(versions(directory), default=0) + 1):
        try:
            target = draft.rename(directory / str(number))
        except OSError as error:  # unless another writer was faster
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            files.flush(directory)
            return target
