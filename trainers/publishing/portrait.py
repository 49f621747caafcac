"""What a model is good and bad at, in words and a picture, from its predictions on test images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from s2d_tf import metrics
from s2d_tf._types import PathLike
from s2d_tf.evaluation import figures, names
from s2d_tf.evaluation.evaluator import Gathered

PICTURE = "uncertainty.png"
NUM_LISTED = 5


def facts(gathered: Gathered, class_names: Sequence[str]) -> dict:
    """Flat facts for an entry's provenance.

    Returns:
        Dict of lists of texts: "best_classes" and "worst_classes" with their accuracy,
        "confusions" with their counts, and "wrong_answers", the AUROC of finding them by each
        uncertainty.
    """
    known = gathered.known
    labels, answers = known.labels, known.log_probs.argmax(axis=-1)
    num_classes = known.log_probs.shape[-1]
    counts = np.zeros((num_classes, num_classes), int)
    np.add.at(counts, (labels, answers), 1)
    accuracy = np.diag(counts) / np.maximum(counts.sum(axis=1), 1)
    order = np.argsort(accuracy, kind="stable")
    np.fill_diagonal(counts, 0)
    pairs = np.argsort(-counts, axis=None, kind="stable")[:NUM_LISTED]
    rows, columns = np.unravel_index(pairs, counts.shape)
    errors = known.errors
    return {
        "best_classes": [f"{class_names[c]} ({accuracy[c]:.0%})" for c in order[::-1][:NUM_LISTED]],
        "worst_classes": [f"{class_names[c]} ({accuracy[c]:.0%})" for c in order[:NUM_LISTED]],
        "confusions": [
            f"{class_names[row]} taken for {class_names[column]} ({counts[row, column]})"
            for row, column in zip(rows, columns, strict=True)
            if counts[row, column]
        ],
        "wrong_answers": [
            f"{names.score_title(name)} {100 * metrics.auroc(values[~errors], values[errors]):.1f}"
            for name, values in known.scores.items()
            if errors.any() and not errors.all()
        ],
    }


def draw(gathered: Gathered, path: PathLike) -> None:
    """Histograms of each uncertainty on right answers, on wrong ones, and on unknown images."""
    known, unknown = gathered.known, gathered.unknown
    title = names.dataset_title(gathered.dataset)
    sets = {
        f"{title}, {name} answers": {key: values[mask] for key, values in known.scores.items()}
        for name, mask in (("right", ~known.errors), ("wrong", known.errors))
        if mask.any()
    }
    sets |= {names.dataset_title(name): scored.scores for name, scored in unknown.items()}
    figures.uncertainty_histograms({"": sets}, path)
