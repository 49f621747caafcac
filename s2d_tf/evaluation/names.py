"""Titles, directions and number formats of metrics, each defined once."""

import typing

from s2d_tf import data

UNCERTAINTIES = ("confidence", "total", "data", "knowledge")
SHORT_NAMES = {"confidence": "Conf.", "total": "TU", "data": "DU", "knowledge": "KU"}
LONG_NAMES = {
    "confidence": "Confidence",
    "total": "Total uncertainty",
    "data": "Data uncertainty",
    "knowledge": "Knowledge uncertainty",
}
# Methods that are not the paper's.
OURS = ("h2d", "plain_dir")
# The order of methods in tables and legends; their titles are in their recipes.
METHODS = (
    *("individual", "s2d", "mimo", "s2d_mimo", "swag", "s2d_swag", "mc", "s2d_mc"),
    *("ensemble", "s2d_ensemble", "end", "h2d_dir", "h2d_gauss", "en2d"),
    *OURS,
)
# A plain method and the one that trains the same network with S2D.
TWINS = {"individual": "s2d", "mimo": "s2d_mimo", "swag": "s2d_swag", "mc": "s2d_mc"}


class Metric(typing.NamedTuple):
    """How a metric is printed: `scale * value` with `decimals` and a suffix.

    `best` picks the better of several values, None where neither end is better.
    """

    title: str
    best: typing.Callable | None
    scale: float = 100.0
    decimals: int = 1
    suffix: str = ""


METRICS = {
    "accuracy": Metric("Acc", max),
    "nll": Metric("NLL", min, 1.0, 2),
    "ece": Metric("%ECE", min, decimals=2),
    "adaptive_ece": Metric("%adaptive ECE", min, decimals=2),
    "brier": Metric("%Brier", min, decimals=2),
    "temperature": Metric("T", None, 1.0, 2),
    "aurc": Metric("%AURC", min),
    "augrc": Metric("%AUGRC", min),
    "risk_at_80_coverage": Metric("%errors, 80% answered", min),
    "auroc": Metric("%AUROC", max),
    "aupr": Metric("%AUPR", max),
    "fpr_at_95_recall": Metric("%FPR at 95% recall", min),
    "rank_correlation": Metric("Rank correlation", None, 1.0, 2),
    "error_auroc": Metric("%AUROC of errors", max),
    "shift_correlation": Metric("Uncertainty rises with errors", max, 1.0, 2),
    "uncertainty": Metric("Mean uncertainty", None, 1.0, 2),
    "set_coverage": Metric("%labels in sets", None),
    "set_size": Metric("Set size", min, 1.0, 2),
    "answered": Metric("%answered", max),
    "answered_errors": Metric("%errors, answered", min),
    "parameters": Metric("Params", min, 1e-6, 2, "M"),
    "inference_ms": Metric("Inference", min, 1.0, 1, "ms"),
    "relative_inference_time": Metric("Inference", min, 1.0, 1, " ×"),
}


def metric(key: str) -> Metric:
    """The metric of a flat key such as `"cifar100/scaled_nll"` or `"svhn_cropped/auroc/total"`."""
    return METRICS[key.split("/")[1].removeprefix("scaled_")]


def format_value(key: str, value: float, spread: float | None = None) -> str:
    """A metric as tables print it, in percent if it is a fraction: `"74.6 ± 0.5"`."""
    _, _, scale, decimals, suffix = metric(key)
    text = f"{scale * value:.{decimals}f}{suffix}"
    return text if spread is None else f"{text} ± {scale * spread:.{decimals}f}{suffix}"


def format_difference(key: str, value: float) -> str:
    """A difference of two values of a metric, with its sign and one decimal more or so."""
    scale = metric(key).scale
    return f"{scale * value:+.{3 if scale == 1.0 else 2}f}"


def metric_title(key: str) -> str:
    """A metric's title and its uncertainty: `"%AUROC total"`, `"scaled NLL"`."""
    _, name, *score = key.split("/")
    scaled = ["scaled"] if name.startswith("scaled_") else []
    return " ".join([*scaled, metric(key).title, *score])


def score_title(name: str) -> str:
    """A score's name for people: an uncertainty's, a detector's, or else its key."""
    if name in LONG_NAMES:
        return LONG_NAMES[name]
    from s2d_tf import posthoc  # Here: it brings TensorFlow.

    detector = posthoc.detectors().get(name)
    return detector.title if detector else name


def dataset_title(name: str) -> str:
    """A dataset's name for people: that of its record, or else the name."""
    return data.info(name).title if name in data.names() else name
