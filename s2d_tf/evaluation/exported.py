"""An exported SavedModel as something that can be evaluated: its answers become scores."""

import hashlib
import os
import pathlib

import numpy as np
import tensorflow as tf

from s2d_tf import export, files
from s2d_tf.evaluation.scoring import Scored

SAVED_MODEL = "saved_model.pb"
_CLASSES = "assets/classes.txt"
# A probability of 0 in float32 may be anything below.
_SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


class ExportedModel:
    """A SavedModel with the outputs that `export.save` writes.

    Only the signature `serving_default` is used: one input, and at least `probabilities`. Without
    `total_uncertainty` it is the entropy of the probabilities; a model without
    `knowledge_uncertainty`, or with none but zeros, does not decompose it. The operations are
    checked against the closed list of exported models before anything is loaded.

    Args:
        folder: a version folder, or the folder of all versions, of which the newest is taken.

    Example:

    >>> folder = export.save(model, "exported/mine")
    >>> scored = evaluation.ExportedModel(folder).score(images, labels)
    >>> scored.log_probs.shape
    (40, 3)
    """

    def __init__(self, folder: str | os.PathLike) -> None:
        self.folder = version_folder(folder)
        export.check(self.folder)
        self._loaded = tf.saved_model.load(str(self.folder))
        signatures = self._loaded.signatures
        if "serving_default" not in signatures:
            raise ValueError(
                f"{self.folder}: expected the signature 'serving_default', received "
                f"{sorted(signatures)}. Write the model with export.save."
            )
        self._signature = signatures["serving_default"]
        inputs = self._signature.structured_input_signature[1]
        names = sorted(self._signature.structured_outputs)
        if len(inputs) != 1 or "probabilities" not in names:
            raise ValueError(
                f"{self.folder}: expected one input and the output 'probabilities', received "
                f"the inputs {sorted(inputs)} and the outputs {names}. Write the model with "
                "export.save."
            )
        ((self._input, self._spec),) = inputs.items()
        shape = self._signature.structured_outputs["probabilities"].shape
        self.num_classes = shape[-1]
        lines = self.folder / _CLASSES
        self.class_names = tuple(lines.read_text("utf-8").splitlines()) if lines.is_file() else None
        self.image_shape = tuple(self._spec.shape[1:]) if self._spec.shape.rank == 4 else None

    @property
    def sha256(self) -> str:
        """Hash of all files of the version."""
        digest = hashlib.sha256()
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            digest.update(f"{path.relative_to(self.folder)} {files.sha256(path)}\n".encode())
        return digest.hexdigest()

    def score(self, inputs: np.ndarray, labels: np.ndarray, batch_size: int = 256) -> Scored:
        """What metrics take, as of any other model.

        Args:
            inputs: examples as the model takes them, `[n, ...]`.
            labels: class numbers `[n]`, -1 where unknown.
            batch_size: examples per call.
        """
        parts = []
        for start in range(0, len(inputs), batch_size):
            batch = tf.cast(tf.constant(inputs[start : start + batch_size]), self._spec.dtype)
            parts.append(_columns(self._signature(**{self._input: batch})))
        joined = {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        if "knowledge" in joined and not joined["knowledge"].any():
            del joined["knowledge"], joined["data"]
        return Scored(joined.pop("log_probs"), joined, np.asarray(labels))


def version_folder(folder: str | os.PathLike) -> pathlib.Path:
    """The version folder that a path means: itself, or the newest of those in it."""
    folder = pathlib.Path(folder).expanduser()
    if (folder / SAVED_MODEL).is_file():
        return folder
    found = [v for v in export.versions(folder) if (folder / str(v) / SAVED_MODEL).is_file()]
    if not found:
        raise ValueError(
            f"{folder}: expected an exported model, received a folder without {SAVED_MODEL}. "
            "`s2d export NAME DIR` writes one."
        )
    return folder / str(found[-1])


def is_exported(where: str | os.PathLike) -> bool:
    """Whether a path is that of an exported model."""
    try:
        version_folder(where)
    except ValueError:
        return False
    return True


def _columns(answers):
    found = {key: np.asarray(value, np.float64) for key, value in answers.items()}
    log_probs = np.log(np.maximum(found["probabilities"], _SMALLEST))
    entropy = -np.sum(found["probabilities"] * log_probs, axis=-1)
    columns = {
        "log_probs": log_probs,
        "confidence": -log_probs.max(axis=-1),
        "total": found.get("total_uncertainty", entropy),
    }
    if "knowledge_uncertainty" in found:
        columns["knowledge"] = found["knowledge_uncertainty"]
        columns["data"] = found.get(
            "data_uncertainty", columns["total"] - found["knowledge_uncertainty"]
        )
    return columns
