"""An exported version, checked and loaded: the one way in which this library reads one."""

from __future__ import annotations

import hashlib
import pathlib

import tensorflow as tf

from s2d_tf import files
from s2d_tf._types import PathLike
from s2d_tf.export import operations
from s2d_tf.export.saved_model import CLASSES
from s2d_tf.export.version_folders import versions

SAVED_MODEL = "saved_model.pb"
DEFAULT = "serving_default"


class Version:
    """A SavedModel with the signature `serving_default`.

    Its operations are checked against the closed list of exported models before it is loaded.

    Args:
        folder: a version folder, or the folder of all versions, of which the newest is taken.

    Attributes:
        folder: the version folder.
        signatures: functions from tensors by name to a dict of answers, by the signature's name.
        class_names: one for each class, where the export has them.
    """

    def __init__(self, folder: PathLike) -> None:
        self.folder = version_folder(folder)
        operations.check(self.folder)
        self._loaded = tf.saved_model.load(str(self.folder))  # The signatures do not keep it alive.
        self.signatures = self._loaded.signatures
        if DEFAULT not in self.signatures:
            raise ValueError(
                f"{self.folder}: expected the signature {DEFAULT!r}, received "
                f"{sorted(self.signatures)}. Write the model with export.save."
            )
        lines = self.folder / "assets" / CLASSES
        self.class_names = tuple(lines.read_text("utf-8").splitlines()) if lines.is_file() else None

    @property
    def inputs(self) -> dict[str, tf.TensorSpec]:
        """What `serving_default` takes, by name."""
        return self.signatures[DEFAULT].structured_input_signature[1]

    @property
    def sha256(self) -> str:
        """Hash of all files of the version."""
        digest = hashlib.sha256()
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(self.folder)} {files.sha256(path)}\n".encode())
        return digest.hexdigest()


def version_folder(folder: PathLike) -> pathlib.Path:
    """The version folder that a path means: itself, or the newest of those in it."""
    folder = pathlib.Path(folder).expanduser()
    if (folder / SAVED_MODEL).is_file():
        return folder
    found = [v for v in versions(folder) if (folder / str(v) / SAVED_MODEL).is_file()]
    if not found:
        raise ValueError(
            f"{folder}: expected an exported model, received a folder without {SAVED_MODEL}. "
            "`s2d export NAME DIR` writes one."
        )
    return folder / str(found[-1])


def is_exported(where: PathLike) -> bool:
    """Whether a path is that of an exported model."""
    try:
        version_folder(where)
    except ValueError:
        return False
    return True
