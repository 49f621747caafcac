"""What is left of a model's answers when a dataset is done: a few numbers for each example.

They are enough for accuracy, NLL, ECE, the AUROC of wrong answers and resampling, and small enough
to keep for a hundred conditions: 10,000 images take half a megabyte.
"""

import dataclasses
import pathlib

import numpy as np

from s2d_tf import files, metrics, models
from s2d_tf.evaluation.exported import ExportedModel
from s2d_tf.evaluation.names import UNCERTAINTIES
from s2d_tf.evaluation.predictions import predict, weights_hash
from s2d_tf.evaluation.scoring import Scored, score
from s2d_tf.files import arrays
from s2d_tf.metrics import checks

_MAX_BYTES = 2**30


@dataclasses.dataclass(frozen=True)
class ExampleScores:
    """What one model said of each example of a labeled dataset.

    Attributes:
        correct: bool `[n]`, whether the most probable class is the label.
        log_prob: float64 `[n]`, log-probability of the label.
        scores: `{uncertainty: float64 [n]}`, larger is more uncertain; see `scoring.Scored`.
    """

    correct: np.ndarray
    log_prob: np.ndarray
    scores: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.correct)

    @classmethod
    def of(cls, scored: Scored) -> "ExampleScores":
        """The part of `scoring.Scored` that is kept."""
        labels = checks.as_labels(scored.labels, *scored.log_probs.shape)
        log_prob = scored.log_probs[np.arange(len(labels)), labels]
        scores = {name: scored.scores[name] for name in UNCERTAINTIES if name in scored.scores}
        return cls(~scored.errors, log_prob, scores)

    def calibration_gaps(self, counts: np.ndarray | None = None) -> np.ndarray:
        """`metrics.calibration_gaps`, of all examples or of resamples."""
        confidence = np.exp(-self.scores["confidence"])
        return metrics.calibration_gaps(confidence, self.correct, counts=counts)

    def metrics(self) -> dict[str, float]:
        """`accuracy`, `nll`, `ece`; `uncertainty/U`, its mean, and `error_auroc/U` of each score.

        Where all answers are right, or all wrong, no score can tell them apart: no `error_auroc`.
        """
        found = {
            "accuracy": float(self.correct.mean()),
            "nll": float(-self.log_prob.mean()),
            "ece": float(np.abs(self.calibration_gaps()).sum()),
        }
        found |= {f"uncertainty/{name}": float(own.mean()) for name, own in self.scores.items()}
        if 0 < self.correct.sum() < len(self):
            found |= {
                f"error_auroc/{name}": metrics.auroc(own[self.correct], own[~self.correct])
                for name, own in self.scores.items()
            }
        return found

    def save(self, path: pathlib.Path) -> None:
        """Writes a safetensors file, whole or not at all."""
        columns = {"correct": self.correct, "log_prob": self.log_prob}
        columns |= {f"scores/{name}": own for name, own in self.scores.items()}
        files.write_bytes(path, arrays.pack(columns))

    @classmethod
    def load(cls, path: pathlib.Path) -> "ExampleScores | None":
        """What `save` wrote; None where the file is missing or damaged."""
        try:
            columns, _ = arrays.unpack(files.read_bytes(path, _MAX_BYTES))
            correct, log_prob = columns.pop("correct"), columns.pop("log_prob")
        except (OSError, ValueError, KeyError):
            return None
        held = [name for name in UNCERTAINTIES if f"scores/{name}" in columns]
        return cls(correct, log_prob, {name: columns[f"scores/{name}"] for name in held})


def score_model(
    model: models.Predictor | ExportedModel,
    inputs: np.ndarray,
    labels: np.ndarray,
    batch_size: int = 256,
) -> Scored:
    """Scores of arrays by a predictor or by an exported model; nothing is cached."""
    if isinstance(model, ExportedModel):
        return model.score(inputs, labels, batch_size)
    return score(predict(model, (inputs, labels), batch_size=batch_size))


def identity(model: models.Predictor | ExportedModel) -> str:
    """Hash by which a model is recognized."""
    return model.sha256 if isinstance(model, ExportedModel) else weights_hash(model)
