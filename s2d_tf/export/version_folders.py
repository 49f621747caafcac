"""Version folders: listed, loaded, and written whole or not at all."""

import errno
import hashlib
import itertools
import pathlib
import secrets
import shutil
from collections.abc import Callable

import tensorflow as tf

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.export import operations

SAVED_MODEL = "saved_model.pb"
DEFAULT = "serving_default"
DESCRIPTION = "assets/model.json"
CLASSES = "assets/classes.txt"


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
    ('1', ['serving_default'])
    """

    def __init__(self, folder: PathLike, trust: bool = False) -> None:
        self.folder = version_folder(folder)
        self.description = _read_description(self.folder)
        (meta_graph,) = operations.check(self.folder, trust).meta_graphs
        self._loaded = tf.saved_model.load(str(self.folder))  # The signatures do not keep it alive.
        self.signatures = dict(self._loaded.signatures)
        self.definitions = {name: meta_graph.signature_def[name] for name in self.signatures}
        if DEFAULT not in self.signatures:
            raise ValueError(
                f"{self.folder}: expected the signature {DEFAULT!r}, received "
                f"{sorted(self.signatures)}. Write the model with export.save."
            )
        names = self.description.get("class_names")
        self.class_names = tuple(map(str, names)) if names else None

    @property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """What `serving_default` takes, by name."""
        return self.signatures[DEFAULT].structured_input_signature[1]

    @property
    def sha256(self) -> str:
        """Hash of all files of the version."""
        digest = hashlib.sha256()
        for name, value in digests(self.folder).items():
            digest.update(f"{name} {value}\n".encode())
        return digest.hexdigest()


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
    >>> version.signatures["serving_default"](images=tf.constant(images, tf.float32))["label"].shape
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


def version_folder(folder: PathLike) -> pathlib.Path:
    """The version folder that a path means: itself, or the newest of those in it."""
    folder = pathlib.Path(folder).expanduser()
    found = [folder, *(folder / str(number) for number in reversed(versions(folder)))]
    for each in found:
        if (each / SAVED_MODEL).is_file():
            return each
    raise ValueError(
        f"{folder}: expected an exported model, received no {SAVED_MODEL}. "
        "`s2d export NAME DIR` writes one."
    )


def is_exported(where: PathLike) -> bool:
    """Whether a path is that of an exported model.

    Example:

    >>> export.is_exported("wrn_10_2_s2.s2d.digits")
    False
    """
    try:
        return bool(version_folder(where))
    except ValueError:
        return False


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
    if directory.exists() and not directory.is_dir():
        raise ValueError(
            f"directory: expected a folder, received the file {str(directory)!r}. Choose "
            "another path."
        )
    draft = directory / f"{files.PARTIAL}{secrets.token_hex(4)}"
    try:
        with files.room_for(directory):
            draft.mkdir(parents=True)
            write(draft)
            files.flush_folder(draft)
            return _move_to_next(draft, directory)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _move_to_next(draft, directory):
    for number in itertools.count(max(versions(directory), default=0) + 1):
        target = directory / str(number)
        try:
            draft.rename(target)
        except OSError as error:  # unless another writer was faster
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            files.flush(directory)
            return target


def _read_description(folder):
    """The description, after its digests were compared with the files."""
    path = folder / DESCRIPTION
    if not path.is_file():
        return {}
    try:
        description = dict(files.read_json(path))
        recorded = dict(description.get("files", {}))  # Versions before 0.2 have no digests.
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{path}: expected the description of a model, received {error!r}. Export the model "
            "again."
        ) from None
    found = digests(folder) if recorded else {}
    wrong = [name for name, digest in recorded.items() if found.get(name) != digest]
    if wrong:
        raise ValueError(
            f"{folder}: expected the files that were exported, received others or none in place of "
            f"{wrong}. Copy the folder again, or export the model again."
        )
    return description
