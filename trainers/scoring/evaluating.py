"""Metrics of a table of answers that `predict_files` wrote."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from s2d_tf import metrics
from s2d_tf._types import PathLike

from .rows import FORMATS, SCORES


def is_predictions(where: PathLike) -> bool:
    """Whether a path is that of a table of answers, by its name; the content is not read.

    Args:
        where: any path.

    Example:

    >>> pathlib.Path("answers.csv").touch()
    >>> prediction.is_predictions("answers.csv"), prediction.is_predictions("pictures")
    (True, False)
    """
    return pathlib.Path(where).suffix in FORMATS and pathlib.Path(where).is_file()


def evaluate_predictions(path: PathLike, ood: Iterable[PathLike] = ()) -> dict[str, float]:
    """Metrics of answers whose inputs had labels, without a model.

    Args:
        path: table that `predict_files` wrote; rows without a true label are left out.
        ood: tables of the same model's answers for out-of-distribution inputs.

    Returns:
        Flat dict with the keys of `evaluation.evaluate`, named after the files. Tables hold
        float32: confidences that round to 1 tie.

    Raises:
        ValueError: a file is not such a table, or has no true label.

    Example:

    >>> import pyarrow.parquet
    >>> x, y = data.load_arrays("digits", "test")
    >>> pixels = [image.tobytes() for image in x[:50]]
    >>> pyarrow.parquet.write_table(pyarrow.table({"image": pixels, "label": y[:50]}), "x.parquet")
    >>> scorer = prediction.open_scorer("wrn_10_2_s2.s2d.digits")
    >>> summary = prediction.predict_files(scorer, "x.parquet", "digits.parquet", progress=False)
    >>> prediction.evaluate_predictions("digits.parquet")["digits/accuracy"] > 0.8
    True
    """
    name, known = _named(path), _read(path)
    labels = known["true_label"]
    rated = ~np.isnan(labels)
    if not rated.any():
        raise ValueError(
            f"{path}: expected true labels, received none. Score inputs that have labels (a folder "
            "for each class, or a feature `label`)."
        )
    confidence = known["confidence"][rated]
    correct = known["label"][rated] == labels[rated]
    gaps = metrics.calibration_gaps(confidence, correct)
    found = {
        f"{name}/accuracy": float(correct.mean()),
        f"{name}/nll": float(-known["true_log_probability"][rated].mean()),
        f"{name}/ece": float(np.abs(gaps).sum()),
    }
    for key, values in known["scores"].items():
        found[f"{name}/aurc/{key}"] = metrics.area_under_risk_coverage(values[rated], ~correct)
    for other in ood:
        scores = _read(other)["scores"]
        for metric in ("auroc", "aupr"):
            for key, values in known["scores"].items():
                value = getattr(metrics, metric)(values, scores[key])
                found[f"{_named(other)}/{metric}/{key}"] = value
    return found


def _named(path):
    return pathlib.Path(path).stem


def _read(path):
    """Columns as float64 arrays; "scores" is a dict of those that are larger where uncertain."""
    from pyarrow import csv, parquet  # not for `s2d evaluate` of a run

    wanted = ["label", "true_label", "true_log_probability", *SCORES]
    try:
        if pathlib.Path(path).suffix == ".csv":
            options = csv.ConvertOptions(include_columns=wanted)
            table = csv.read_csv(path, convert_options=options)
        else:
            table = parquet.read_table(path, columns=wanted)
    except (KeyError, ValueError) as error:  # pyarrow's are of both kinds
        raise ValueError(
            f"{path}: expected a table that `s2d predict` wrote, received {str(error)[:200]!r}. "
            "Check the path."
        ) from None
    columns: dict[str, Any] = {
        name: np.asarray(table[name].cast("float64").to_numpy(), np.float64) for name in wanted
    }
    columns["scores"] = {"confidence": -np.log(columns["confidence"])} | {
        name.removesuffix("_uncertainty"): columns[name] for name in SCORES[1:]
    }
    return columns
