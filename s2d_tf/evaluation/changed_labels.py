"""Does uncertainty find the training images whose labels were changed?

For runs of a recipe with label noise. Changed labels are the positives; each uncertainty of the
trained model on its own training images is a score, and so is the loss of the label that was given,
which is what people use without any uncertainty.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from s2d_tf import metrics, models, storage
from s2d_tf._types import PathLike
from s2d_tf.evaluation import intervals as intervals_lib
from s2d_tf.evaluation import run_data
from s2d_tf.evaluation.names import UNCERTAINTIES
from s2d_tf.evaluation.predictions import predict
from s2d_tf.evaluation.scoring import score
from s2d_tf.recipes import own_data

LOSS = "loss"


@dataclasses.dataclass(frozen=True)
class ChangedLabels:
    """Scores of training images, and whose labels were changed.

    Attributes:
        dataset: what keys begin with.
        changed: bool `[n]`.
        scores: `{uncertainty or "loss": [n]}`, larger is more suspicious.
    """

    dataset: str
    changed: np.ndarray
    scores: dict[str, np.ndarray]

    def metrics(self) -> dict[str, float]:
        """`NAME/changed_auroc/U` and `/changed_aupr/U`; `NAME/changed_labels` is their share."""
        found = {f"{self.dataset}/changed_labels": float(self.changed.mean())}
        for name in self.scores:
            pair = self._pair(name)
            found[f"{self.dataset}/changed_auroc/{name}"] = metrics.auroc(*pair)
            found[f"{self.dataset}/changed_aupr/{name}"] = metrics.aupr(*pair)
        return found

    def intervals(self, num_resamples: int, seed: int = 0) -> dict[str, dict[str, float]]:
        """95% intervals over the images, of each AUROC and of data uncertainty minus the others.

        Args:
            num_resamples: number of bootstrap resamples.
            seed: integer; the same seed gives the same intervals.

        Returns:
            `{"NAME/changed_auroc/data": {...}, "NAME/changed_auroc/data_minus_total": {...}}`.
        """
        options: dict[str, Any] = {"num_resamples": num_resamples, "seed": seed}
        known, changed = ({n: self._pair(n)[i] for n in self.scores} for i in (0, 1))
        own = intervals_lib.detection(known, changed, **options)
        found = {name: own[f"auroc/{name}"] for name in self.scores}
        others = [name for name in self.scores if name != "data" and "data" in self.scores]
        for name in others:
            (known, changed), other = (
                tuple({"data": part} for part in self._pair(n)) for n in ("data", name)
            )
            difference = intervals_lib.detection(known, changed, other, **options)
            found[f"data_minus_{name}"] = difference["auroc/data"]
        stem = f"{self.dataset}/changed_auroc"
        return {f"{stem}/{name}": dataclasses.asdict(each) for name, each in found.items()}

    def _pair(self, name):
        return self.scores[name][~self.changed], self.scores[name][self.changed]


def find(
    predictor: models.Predictor,
    run: storage.Run,
    data_dir: PathLike | None = None,
    cache_dir: PathLike | None = None,
    batch_size: int = 256,
    folder: PathLike | None = None,
) -> ChangedLabels:
    """Scores the training images of a run whose recipe has label noise.

    Args:
        predictor: the run's.
        run: the run.
        data_dir: TFDS folder.
        cache_dir: folder of cached predictions.
        batch_size: images per forward pass.
        folder: where the images of a run on own data are now; None: where they were.
    """
    recipe = run.recipe
    images, labels = own_data.load_arrays(recipe, run.split, data_dir, run_data.known(run, folder))
    given = own_data.training_labels(recipe, labels, data_dir)
    made = predict(
        predictor,
        (images, given),
        cache_dir=cache_dir,
        batch_size=batch_size,
        name=f"{recipe.source_dataset}.{run.split}",
    )
    scored = score(made)
    scores = {name: scored.scores[name] for name in UNCERTAINTIES if name in scored.scores}
    scores[LOSS] = -scored.log_probs[np.arange(len(given)), given]
    return ChangedLabels(recipe.source_dataset, given != labels, scores)
