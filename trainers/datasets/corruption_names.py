"""Names of the conditions of CIFAR-100-C: a corruption and a severity, such as "fog_3".

Names and order as published: Hendrycks and Dietterich, Benchmarking neural network robustness to
common corruptions and perturbations, ICLR 2019, and `ImageNet-C/create_c/make_cifar_c.py` of
https://github.com/hendrycks/robustness. This module imports nothing, so that names cost nothing.
"""

MAIN = (
    "gaussian_noise", "shot_noise", "impulse_noise",
    "defocus_blur", "glass_blur", "motion_blur", "zoom_blur",
    "snow", "frost", "fog", "brightness",
    "contrast", "elastic_transform", "pixelate", "jpeg_compression",
)  # fmt: skip
"""The fifteen corruptions over which the benchmark's mean is taken."""

EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
"""The four that were published beside them for validation."""

SEVERITIES = (1, 2, 3, 4, 5)

NOT_GENERATED = {
    "frost": "it overlays photographs of frost, and none with a free license comes with our "
    "dependencies; the published archive has it (cifar100_c)"
}
"""Corruptions that `corrupt` cannot compute, with the reason."""

PUBLISHED = tuple(f"{name}_{level}" for name in MAIN + EXTRA for level in SEVERITIES)
"""The conditions of the published archive."""

GENERATED = tuple(c for c in PUBLISHED if c.rpartition("_")[0] not in NOT_GENERATED)
"""The conditions that are generated here."""


def split_condition(condition: str) -> tuple[str, int]:
    """("fog", 3) of "fog_3"."""
    corruption, _, severity = condition.rpartition("_")
    return corruption, int(severity)
