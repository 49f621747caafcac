"""Answers as columns of a table, the same in Parquet and CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from . import sources

FORMATS = (".parquet", ".csv")
SCORES = ("confidence", "total_uncertainty", "data_uncertainty", "knowledge_uncertainty")


def columns(
    examples: Sequence[sources.Example],
    outputs: dict,
    top_k: int,
    class_names: Sequence[str] | None = None,
) -> tuple[dict, np.ndarray]:
    """Columns of the examples whose answer is a number.

    Args:
        examples: `sources.Example`s.
        outputs: their answers, dict of arrays with the batch first.
        top_k: how many classes to give the probability of.
        class_names: one for each class, where they are known.

    Returns:
        Dict of lists and arrays; and which examples they are of, a boolean array.
    """
    probabilities = np.asarray(outputs["probabilities"])
    finite = np.isfinite(probabilities).all(axis=-1)
    probabilities = probabilities[finite]
    # Stable, so that ties go to the lower class, as `argmax` does.
    order = np.argsort(-probabilities, axis=-1, kind="stable")[:, :top_k]
    kept = [example for example, good in zip(examples, finite, strict=True) if good]
    made: dict[str, Any] = {"input": [example.name for example in kept]}
    labels = np.asarray(outputs["label"])[finite]
    made["label"] = labels
    if class_names:
        made["class"] = [class_names[label] for label in labels]
    made |= {name: np.asarray(outputs[name])[finite] for name in SCORES}
    for rank in range(order.shape[1]):
        made[f"top_{rank + 1}_label"] = order[:, rank]
        made[f"top_{rank + 1}_probability"] = np.take_along_axis(
            probabilities, order[:, rank : rank + 1], axis=-1
        )[:, 0]
    for name, values in outputs.items():
        if name not in made and name != "probabilities":
            made[name] = _plain(np.asarray(values)[finite])
    truth = [_class_number(example.label, class_names) for example in kept]
    known = np.array(
        [t if t is not None and 0 <= t < probabilities.shape[1] else -1 for t in truth]
    )
    made["true_label"] = [None if t < 0 else int(t) for t in known]
    with np.errstate(divide="ignore"):
        own = np.log(
            np.take_along_axis(probabilities, np.maximum(known, 0)[:, None], axis=-1)[:, 0]
        )
    made["true_log_probability"] = [
        None if t < 0 else float(value) for t, value in zip(known, own, strict=True)
    ]
    return made, finite


def _plain(values):
    """One value for each row: sets of classes as their numbers, separated by spaces."""
    if values.ndim == 1:
        return values
    return [" ".join(map(str, np.flatnonzero(row))) for row in values]


def _class_number(label, class_names):
    if isinstance(label, (int, np.integer)):
        return int(label)
    return class_names.index(label) if class_names and label in class_names else None
