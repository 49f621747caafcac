"""An exported SavedModel as something that can be evaluated: its answers become scores."""

import numpy as np
import tensorflow as tf

from s2d_tf._types import PathLike
from s2d_tf.evaluation.scoring import Scored
from s2d_tf.export import Version

# A probability of 0 in float32 may be anything below.
_SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


class ExportedModel(Version):
    """A SavedModel with the outputs that `export.save` writes.

    Only the signature `serving_default` is used: one input, and at least `probabilities`. Without
    `total_uncertainty` it is the entropy of the probabilities; a model without
    `knowledge_uncertainty`, or with none but zeros, does not decompose it. It is read as `export.load`
    reads it.

    Args:
        folder, trust: as for `export.load`.

    Example:

    >>> folder = export.save(model, "exported/mine")
    >>> scored = evaluation.ExportedModel(folder).score(images, labels)
    >>> scored.log_probs.shape
    (40, 3)
    """

    def __init__(self, folder: PathLike, trust: bool = False) -> None:
        super().__init__(folder, trust)
        self._signature = self.signatures["serving_default"]
        names = sorted(self._signature.structured_outputs)
        if len(self.inputs) != 1 or "probabilities" not in names:
            raise ValueError(
                f"{self.folder}: expected one input and the output 'probabilities', received "
                f"the inputs {sorted(self.inputs)} and the outputs {names}. Write the model with "
                "export.save."
            )
        ((self._input, self._spec),) = self.inputs.items()
        self.num_classes = self._signature.structured_outputs["probabilities"].shape[-1]
        self.image_shape = tuple(self._spec.shape[1:]) if self._spec.shape.rank == 4 else None

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
