"""What the fits accept; every error says what was expected, what was received and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np

from s2d_tf._types import ArrayLike
from s2d_tf.models import Predictor


def predictor(model: Any) -> None:
    if not isinstance(model, Predictor):
        raise ValueError(
            f"model: expected a models.Predictor, received {type(model).__name__}. Cast a Keras "
            "classifier with models.S2DClassifier.from_classifier."
        )


def labels(values: ArrayLike | None, num_examples: int, num_classes: int) -> np.ndarray:
    """Labels as an int64 vector of classes."""
    if values is None:
        raise ValueError("data: expected labels, received none. Pass (inputs, labels).")
    values = np.asarray(values)
    if values.shape != (num_examples,) or values.dtype.kind not in "iu":
        raise ValueError(
            f"data: expected {num_examples} integer labels, received an array of shape "
            f"{values.shape} and type {values.dtype}. Pass one class index for each example."
        )
    outside = values[(values < 0) | (values >= num_classes)]
    if outside.size:
        raise ValueError(
            f"data: expected labels from 0 to {num_classes - 1}, received {int(outside[0])}. "
            "Remove examples without a known class."
        )
    return values.astype(np.int64)


def finite(values: np.ndarray, name: str) -> np.ndarray:
    """The same array, if it holds only numbers."""
    if not np.isfinite(values).all():
        raise ValueError(
            f"data: expected finite {name}, received NaN or infinity. Check the inputs and the "
            "model's weights."
        )
    return values


def num_examples(received: int, least: int) -> None:
    if received < least:
        raise ValueError(
            f"data: expected at least {least} examples, received {received}. Add examples."
        )


def every_class(counts: np.ndarray, least: int = 1) -> None:
    """Raises a `ValueError` where a class has fewer examples than `least`."""
    few = np.flatnonzero(np.asarray(counts) < least)
    if few.size:
        shown = ", ".join(f"{int(counts[c])} of class {c}" for c in few[:5])
        more = f" and {few.size - 5} other classes" if few.size > 5 else ""
        raise ValueError(
            f"data: expected at least {least} examples of each class, received {shown}{more}. "
            "Add examples of these classes."
        )


def fraction(value: Any, name: str) -> float:
    """A number strictly between 0 and 1."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < 1:
        raise ValueError(
            f"{name}: expected a number between 0 and 1, received {value!r}. Pass a fraction."
        )
    return float(value)


def positive(value: Any, name: str, kind: type = float) -> Any:
    """A number above 0; `kind=int` for a whole one."""
    allowed = (int, float) if kind is float else int
    if isinstance(value, bool) or not isinstance(value, allowed) or not 0 < value < float("inf"):
        what = "a whole number" if kind is int else "a number"
        raise ValueError(
            f"{name}: expected {what} above 0, received {value!r}. Pass such a number."
        )
    return kind(value)


def choice(value: Any, name: str, known: tuple) -> str:
    if value not in known:
        raise ValueError(
            f"{name}: expected one of {list(known)}, received {value!r}. Choose one of these."
        )
    return value


def cholesky(matrix: np.ndarray, what: str) -> np.ndarray:
    """The lower Cholesky factor of a covariance, which must not be singular."""
    diagonal = np.diag(matrix)
    try:
        factor = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        factor = None
    # A factor whose smallest pivot is rounding error would turn noise into the largest distances.
    if factor is None or np.diag(factor).min() ** 2 <= 1e-13 * diagonal.max():
        raise ValueError(
            f"data: expected features with a regular covariance, received a singular one for "
            f"{what}. Raise `shrinkage`, or add examples."
        )
    return factor
