"""Titles, directions and number formats, each defined once; nothing here imports TensorFlow."""

import typing

UNCERTAINTIES = ("confidence", "total", "data", "knowledge")
SHORT_NAMES = {"confidence": "Conf.", "total": "TU", "data": "DU", "knowledge": "KU"}
LONG_NAMES = {
    "confidence": "Confidence",
    "total": "Total uncertainty",
    "data": "Data uncertainty",
    "knowledge": "Knowledge uncertainty",
}
# Post-hoc detectors by the keys of their scores, in the order of all tables.
DETECTORS = {
    "msp": "MSP",
    "max_logit": "MaxLogit",
    "energy": "Energy",
    "gen": "GEN",
    "react": "ReAct",
    "ash": "ASH",
    "scale": "SCALE",
    "knn": "KNN",
    "fdbd": "fDBD",
    "vim": "ViM",
    "mahalanobis": "Mahalanobis",
    "relative_mahalanobis": "Relative Mahalanobis",
    "feature_density": "Feature density (DDU)",
}
DATASETS = {
    "cifar100": "CIFAR-100",
    "cifar10": "CIFAR-10",
    "svhn_cropped": "SVHN",
    "tiny_imagenet_resize": "Tiny ImageNet (resize)",
    "tiny_imagenet_crop": "Tiny ImageNet (crop)",
    "odin_lsun_resize": "LSUN (resize)",
    "odin_lsun_crop": "LSUN (crop)",
    "odin_tiny_imagenet_resize": "Tiny ImageNet (ODIN's resize)",
    "odin_tiny_imagenet_crop": "Tiny ImageNet (ODIN's crop)",
    "cifar100_c": "CIFAR-100-C",
    "cifar100_c_generated": "CIFAR-100-C (generated)",
    "openood_near": "Near (OpenOOD)",
    "openood_far": "Far (OpenOOD)",
    "openood_tiny_imagenet": "Tiny ImageNet (OpenOOD)",
    "openood_mnist": "MNIST",
    "openood_textures": "Textures",
    "openood_places365": "Places365",
    "digits": "Digits 0 to 7",
    "digits_heldout": "Digits 8 and 9",
    "digits_photos": "Photographs",
    "clinc150": "CLINC150",
    "clinc150_oos": "CLINC150 out-of-scope",
}
# Methods that are not the paper's.
OURS = ("h2d", "h2d_spread", "plain_dir", "plain_gauss")
# The order of methods in tables and legends; their titles are in their recipes.
METHODS = (
    *("individual", "s2d", "mimo", "s2d_mimo", "swag", "s2d_swag", "mc", "s2d_mc"),
    *("ensemble", "s2d_ensemble", "end", "h2d_dir", "h2d_gauss", "en2d"),
    *OURS,
)
# A plain method and the one that trains the same network with S2D.
TWINS = {"individual": "s2d", "mimo": "s2d_mimo", "swag": "s2d_swag", "mc": "s2d_mc"}
# What keys begin with that measure the other reading of a Gaussian student, and what rows say.
READINGS = {"mean": "by its mean", "draws": "by its draws"}
# Members of an ensemble whose method's name needs no number.
USUAL_MEMBERS = 5


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
    "changed_auroc": Metric("%AUROC of changed labels", max),
    "changed_aupr": Metric("%AUPR of changed labels", max),
    "changed_labels": Metric("%changed labels", None),
    "error_auroc": Metric("%AUROC of errors", max),
    "scod_aurc": Metric("%SCOD AURC", min),
    "sets": Metric("Sets", None, 1.0, 0),
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
    name = key.split("/")[1]
    for prefix in (*READINGS, "scaled"):
        name = name.removeprefix(f"{prefix}_")
    return METRICS[name]


def reading_key(reading: str, key: str) -> str:
    """A key of another reading: `("mean", "cifar100/nll")` gives `"cifar100/mean_nll"`."""
    dataset, name = key.split("/", 1)
    return f"{dataset}/{reading}_{name}"


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
    return {**LONG_NAMES, **DETECTORS}.get(name, name)


def dataset_title(name: str) -> str:
    """A dataset's name for people."""
    return DATASETS.get(name, name)


def variant(method: str, members: int | None = None) -> str:
    """`method`, with the number of members where it is not the usual 5: `"ensemble_10"`."""
    return method if members in (None, USUAL_MEMBERS) else f"{method}_{members}"
