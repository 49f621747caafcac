"""What the metrics accept; every rejection is one line that says what was expected and received."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from s2d_tf._types import Array, ArrayLike
from s2d_tf.errors import UserError

# float32 softmax over 1000 classes sums to 1 within 1e-5 and half precision within 1e-3; logits
# miss by far more.
PROBS_SUM_TOLERANCE = 1e-2


def as_matrix(values: ArrayLike, name: str) -> Array:
    """Returns `values` as a finite float64 array `[examples, classes]`."""
    values = np.asarray(values, dtype=np.float64)
    UserError.unless(
        values.ndim == 2 and values.shape[1] >= 2,
        f"{name}: expected the shape [examples, classes] with at least 2 classes, "
        f"received {values.shape}. Average a stack of members first.",
    )
    return _not_empty_and_finite(values, name)


def as_labeled(probs: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Returns `probs` as float64 rows that are distributions, and their `as_labels(labels)`."""
    probs = as_matrix(probs, "probs")
    UserError.unless(
        probs.min() >= 0.0,
        f"probs: expected no negative values, received {probs.min():.6g}. If these are "
        "logits, apply a softmax first.",
    )
    sums = probs.sum(axis=-1)
    worst = np.abs(sums - 1.0).argmax()
    UserError.unless(
        abs(sums[worst] - 1.0) <= PROBS_SUM_TOLERANCE,
        "probs: expected rows that sum to 1 over the classes, received "
        f"{sums[worst]:.6g} in row {worst}. If these are logits or concentrations, "
        "normalize them first.",
    )
    return probs, as_labels(labels, *probs.shape)


def as_labels(labels: ArrayLike, num_examples: int, num_classes: int) -> Array:
    """Returns `labels` as an int64 vector of classes in `[0, num_classes)`."""
    labels = np.asarray(labels)
    UserError.unless(
        labels.shape == (num_examples,),
        f"labels: expected the shape ({num_examples},), one class per row of the "
        f"predictions, received {labels.shape}. Pass one label for each example.",
    )
    UserError.unless(
        np.issubdtype(labels.dtype, np.integer),
        f"labels: expected integer classes, received dtype {labels.dtype}. Convert "
        "one-hot labels with argmax(axis=-1).",
    )
    outside = np.flatnonzero((labels < 0) | (labels >= num_classes))
    if outside.size:
        first = outside[0]
        raise ValueError(
            f"labels: expected classes in [0, {num_classes}), received {labels[first]} at "
            f"index {first} ({outside.size} outside in all). Remove examples without a label."
        )
    return labels.astype(np.int64)


def as_scores(scores: ArrayLike, name: str) -> Array:
    """Returns `scores` as a finite, non-empty float64 vector."""
    scores = np.asarray(scores, dtype=np.float64)
    UserError.unless(
        scores.ndim == 1,
        f"{name}: expected a vector, one score per example, received the shape "
        f"{scores.shape}. Pass one number for each example.",
    )
    return _not_empty_and_finite(scores, name)


def as_errors(errors: ArrayLike, num_examples: int) -> Array:
    """Returns `errors` (booleans or 0/1) as a float64 vector."""
    errors = np.asarray(errors, dtype=np.float64)
    UserError.unless(
        errors.shape == (num_examples,),
        f"errors: expected the shape ({num_examples},), one per score, received "
        f"{errors.shape}. Pass one error for each score.",
    )
    if not np.isin(errors, (0.0, 1.0)).all():
        raise ValueError(
            "errors: expected booleans or 0/1, 1 where the prediction is wrong, received "
            f"{errors[~np.isin(errors, (0.0, 1.0))][0]}. Compare predictions with labels "
            "first."
        )
    return errors


def as_positive_int(value: int, name: str) -> int:
    """Returns `value` as an int of at least 1."""
    UserError.unless(
        isinstance(value, Integral) and not isinstance(value, bool) and value >= 1,
        f"{name}: expected an integer of at least 1, received {value!r}. Pass a whole number.",
    )
    return int(value)


def _not_empty_and_finite(values, name):
    UserError.unless(
        values.size,
        f"{name}: expected at least one example, received none. Check the data.",
    )
    finite = np.isfinite(values)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise ValueError(
            f"{name}: expected finite numbers, received {values[where]} at index "
            f"{where[0] if len(where) == 1 else where} ({(~finite).sum()} in all). Find the "
            "model or input that made it: it can be neither ranked nor averaged."
        )
    return values
