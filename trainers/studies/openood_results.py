"""Reads result files of OpenOOD, so that published numbers stand beside ours, marked as theirs.

Two kinds: the CSV files of its leaderboard, `results/cifar100.csv` in the branch `leaderboard` of
https://github.com/Jingkang50/OpenOOD, and those that its `scripts/eval_ood.py --save-csv` writes,
one for each detector. Numbers are percent, "80.27 ± 0.11"; the second is one standard deviation
over training runs (divisor n). Its AUPR is the trapezoid's, not ours, and is left out.
"""

import csv
import dataclasses
import os
import pathlib

SETS = {
    "nearood": "openood_near",
    "farood": "openood_far",
    "cifar10": "cifar10",
    "tin": "openood_tiny_imagenet",
    "mnist": "openood_mnist",
    "svhn": "svhn_cropped",
    "texture": "openood_textures",
    "places365": "openood_places365",
}
"""Its names of sets, and ours."""
_LEADERBOARD = {
    "Near-OOD_AUROC": ("openood_near", "auroc"),
    "Far-OOD_AUROC": ("openood_far", "auroc"),
    "ID_Accuracy": ("cifar100", "accuracy"),
}
_COLUMNS = {"AUROC": "auroc", "FPR@95": "fpr_at_95_recall"}


@dataclasses.dataclass(frozen=True)
class Published:
    """One number of theirs, as a fraction.

    Attributes:
        network: architecture, with the number of epochs where it is stated.
        training: how it was trained, such as "CrossEntropy".
        detector: the score.
        dataset, metric: our names.
        mean, two_std: over their training runs; None where no spread is given.
        outliers: whether the training used outlier data.
    """

    network: str
    training: str
    detector: str
    dataset: str
    metric: str
    mean: float
    two_std: float | None
    outliers: bool = False


def read_openood(path: str | os.PathLike) -> list[Published]:
    """Reads one CSV file of OpenOOD's results for CIFAR-100.

    Args:
        path: a leaderboard's file, or one of `eval_ood.py`, which is named after the detector.

    Returns:
        One `Published` for each number; cells with "/" or nothing are left out.

    Raises:
        ValueError: the file has other columns, sets or numbers.

    Example:

    ```python
    rows = read_openood("results/openood/cifar100.csv")
    [(row.detector, row.mean) for row in rows if row.dataset == "openood_near"]
    ```
    """
    path = pathlib.Path(path)
    with path.open(newline="", encoding="utf-8-sig") as file:
        rows = list(csv.DictReader(file))
    columns = set(rows[0]) if rows else set()
    if _LEADERBOARD.keys() <= columns and {"Training", "Postprocessor"} <= columns:
        return [each for row in rows for each in _leaderboard(row, path)]
    if _COLUMNS.keys() <= columns and columns & {"", "dataset"}:
        return [each for row in rows for each in _evaluated(row, path)]
    raise ValueError(
        f"{path}: expected the columns {', '.join(_LEADERBOARD)} or {', '.join(_COLUMNS)}, "
        f"received {', '.join(sorted(columns)) or 'none'}. Pass a result file of OpenOOD v1.5."
    )


def _leaderboard(row, path):
    network = ", ".join(filter(None, (row.get("Arch"), row.get("Additional_Description"))))
    for column, (dataset, metric) in _LEADERBOARD.items():
        value = _number(row[column], path)
        # The accuracy is that of the network, whatever the detector.
        if value is not None:
            detector = "" if metric == "accuracy" else row["Postprocessor"]
            what = network or "not stated", row["Training"], detector, dataset, metric
            mean, spread = value
            outliers = row.get("Outlier_Data", "No").strip() == "Yes"
            yield Published(*what, mean, spread, outliers)


def _evaluated(row, path):
    name = (row.get("dataset") or row.get("") or "").strip()
    if name not in SETS:
        raise ValueError(
            f"{path}: expected one of the sets {', '.join(SETS)}, received {name!r}. Pass results "
            "for CIFAR-100."
        )
    for column, metric in _COLUMNS.items():
        value = _number(row[column], path)
        if value is not None:
            yield Published("not stated", "not stated", path.stem, SETS[name], metric, *value)


def _number(text, path):
    """Mean and two standard deviations as fractions, or None."""
    text = (text or "").strip()
    if text in ("", "/", "-"):
        return None
    try:
        mean, *spread = (float(part) / 100.0 for part in text.split("±"))
    except ValueError:
        mean, spread = float("nan"), []
    if not 0.0 <= mean <= 1.0 or len(spread) > 1:
        raise ValueError(
            f"{path}: expected percent such as '80.27 ± 0.11', received {text!r}. Correct the cell."
        )
    return mean, 2.0 * spread[0] if spread else None
