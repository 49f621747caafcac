"""Words for uncertainties, data sets and metrics; nothing here imports TensorFlow."""

UNCERTAINTIES = ("confidence", "total", "data", "knowledge")
SHORT_NAMES = {"confidence": "Conf.", "total": "TU", "data": "DU", "knowledge": "KU"}
LONG_NAMES = {
    "confidence": "Confidence",
    "total": "Total uncertainty",
    "data": "Data uncertainty",
    "knowledge": "Knowledge uncertainty",
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
    "digits": "Digits 0 to 7",
    "digits_heldout": "Digits 8 and 9",
    "digits_photos": "Photographs",
}
LOWER_IS_BETTER = frozenset(
    {
        "nll",
        "ece",
        "adaptive_ece",
        "brier",
        "aurc",
        "augrc",
        "risk_at_80_coverage",
        "fpr_at_95_recall",
        "parameters",
        "inference_ms",
        "relative_inference_time",
    }
)


def dataset_title(name):
    """A data set's name for people."""
    return DATASETS.get(name, name)
